"""The hook of RunPod: jobs as its worker runs them."""

import asyncio
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from latencytrace.agent.hooks.task_queues import RunpodHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
rp_job = pytest.importorskip("runpod.serverless.modules.rp_job")

HOOKS = (RunpodHook,)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_job_is_one_request(spans: Spans, *, is_async: bool) -> None:
    def handler(job: dict[str, Any]) -> int:
        return len(job["input"]["text"])

    async def awaited(job: dict[str, Any]) -> int:
        return handler(job)

    job = {"id": "1", "input": {"text": "a secret"}}

    result = asyncio.run(rp_job.run_job(awaited if is_async else handler, job))

    assert result == {"output": 8}
    assert spans.names == ["run job"]
    assert "secret" not in repr(dict(spans.only.attributes))


@pytest.mark.parametrize("is_raised", [False, True])
def test_a_job_that_is_answered_with_an_error_has_failed(spans: Spans, *, is_raised: bool) -> None:
    def handler(_: dict[str, Any]) -> dict[str, str]:
        if is_raised:
            raise LookupError("a secret")
        return {"error": "a secret"}

    result = asyncio.run(rp_job.run_job(handler, {"id": "1", "input": {}}))

    assert "a secret" in result["error"]
    assert spans.only.status.status_code is StatusCode.ERROR
    assert spans.only.attributes[semconv.ERROR_TYPE] == "JobError"
    assert "secret" not in repr(dict(spans.only.attributes))
