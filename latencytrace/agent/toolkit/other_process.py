"""A call in another process, in the caller's trace; importable there by its name."""

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.context import Context, get_current

from latencytrace.agent.context import call_in
from latencytrace.agent.guard import OnFault, guarded
from latencytrace.agent.toolkit.http import propagation


def carried_headers(on_fault: OnFault) -> dict[str, str]:
    """The current span as headers, also one that has ended or is not sampled; none of none."""
    carried: dict[str, str] = {}
    with guarded("carrying a span into a process", on_fault):
        if get_current():
            propagation.inject(carried)
    return carried


def is_forking(pool: object, context: str) -> bool:
    """Say whether a worker may have been forked from within a request, and still has its span."""
    how = getattr(getattr(pool, context, None), "get_start_method", None)
    return how is not None and how() == "fork"


def call_carried(
    carried: Mapping[str, str],
    call: Callable[..., Any],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Call below the span that W3C headers name."""
    return call_in(propagation.extract(carried, Context()), call, *args, **kwargs)


class CarriedRun:
    """The `run` of a process's own class, in the trace that started it.

    Args:
        carried: W3C headers.
        process: Of `multiprocessing`.
    """

    def __init__(self, carried: Mapping[str, str], process: Any) -> None:
        self._carried = carried
        self._process = process

    def __call__(self) -> Any:
        return call_carried(self._carried, type(self._process).run, self._process)
