"""A call in another process, in the trace of who asked for it; importable there by its name."""

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context

from latencytrace.agent.context import call_in


def call_carried(
    carried: Mapping[str, str],
    call: Callable[..., Any],
    /,
    *args: Any,  # noqa: ANN401 - the call's
    **kwargs: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Call below the span that W3C headers name."""
    return call_in(propagate.extract(carried, Context()), call, *args, **kwargs)
