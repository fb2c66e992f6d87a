"""Jobs of a RunPod worker."""

from collections.abc import Mapping
from typing import Any

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.queues.messages import timed_work


def _job(_: tuple[Any, ...], __: dict[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return "run job", {}


class JobError(Exception):
    """A job that RunPod's worker answers with an error."""


def _failure(_: tuple[Any, ...], answer: Any) -> Exception | None:
    return JobError() if isinstance(answer, Mapping) and answer.get("error") else None


class RunpodHook(Hook):
    """Times each job as a request of its own; a streaming handler is not timed."""

    requires = ("runpod >= 1.6",)
    patches = (
        Replacement("runpod.serverless.modules.rp_job", "run_job", timed_work(_job, _failure)),
    )
