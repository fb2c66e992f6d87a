"""Waits before another attempt with `tenacity`, and with what is built on it."""

from typing import Any

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.models.model_api import announced_waits


def _seconds(step: Any) -> float | None:
    """Read the wait that a step asks for; others are attempts and results."""
    return float(step) if type(step).__name__ == "DoSleep" else None


class TenacityHook(Hook):
    """Notes the waits that all ways of trying again have in common, within a request."""

    requires = ("tenacity >= 8.2",)
    patches = (
        Replacement("tenacity", "BaseRetrying.iter", announced_waits(_seconds)),
        Replacement(
            "tenacity.asyncio", "AsyncRetrying.iter", announced_waits(_seconds), optional=True
        ),
    )
