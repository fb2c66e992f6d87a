"""The trace that a call carries to another process, by the propagators of `OTEL_PROPAGATORS`.

A propagator that is named there but not installed makes OpenTelemetry's module for them raise:
then W3C's are used. An empty one (`none`) returns what it is given, so a context is always given.
"""

import importlib
from fnmatch import fnmatch
from functools import lru_cache
from typing import Any, Final

from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import Getter, TextMapPropagator, default_getter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from latencytrace.agent.guard import attempted, logger

_W3C: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
_api: Final[Any] = attempted(
    lambda: importlib.import_module("opentelemetry.propagate"), otherwise=None
)
if _api is None:
    logger.warning(
        "OTEL_PROPAGATORS names a propagator that is not installed: "
        "headers of W3C's trace context and baggage are read and sent instead"
    )


def propagator() -> TextMapPropagator:
    """Return what reads and writes the headers of calls."""
    chosen: TextMapPropagator = _W3C if _api is None else _api.get_global_textmap()
    return chosen


@lru_cache(maxsize=1024)
def goes_to(host: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a call of a host carries a trace.

    Args:
        host: Name or address of the host.
        patterns: Of `LATENCYTRACE_PROPAGATE_TO`; with `!` before it one leaves hosts out.
    """
    named = [pattern for pattern in patterns if pattern[:1] != "!"]
    left_out = (pattern[1:].strip() for pattern in patterns if pattern[:1] == "!")
    is_named = not named or any(fnmatch(host, pattern) for pattern in named)
    return is_named and not any(fnmatch(host, pattern) for pattern in left_out)


def extract(
    carrier: Any,  # noqa: ANN401 - what the getter reads
    context: Context | None = None,
    getter: Getter[Any] = default_getter,
) -> Context:
    """Return the context that a call carries, above an empty one or another."""
    return propagator().extract(carrier, Context() if context is None else context, getter)


def inject(carrier: Any, context: Context | None = None) -> None:  # noqa: ANN401 - a mapping
    """Write the trace of a context, or of the current one, into what a call carries."""
    propagator().inject(carrier, context)
