"""The trace that a call carries to another process, by the propagators of `OTEL_PROPAGATORS`.

A propagator that is named there but not installed makes OpenTelemetry's module for them raise:
then W3C's are used. An empty one (`none`) returns what it is given, so a context is always given.

Speed is the point of `inject`: what W3C's propagators write for a span of ours, where there is
nothing else to be written, is written by hand (`tests/benchmarks/bench_routes.py`).
"""

import importlib
from fnmatch import fnmatch
from functools import lru_cache
from typing import Any, Final

from opentelemetry.baggage import (
    _BAGGAGE_KEY,  # where a context holds what is sent beside its span
)
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context, create_key
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import Getter, TextMapPropagator, default_getter
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # what set_span_in_context sets, four calls deep
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from latencytrace.agent.context import current
from latencytrace.agent.guard import attempted, logger
from latencytrace.agent.spans.span import RecordedSpan

_W3C: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
WITHHELD: Final = create_key("latencytrace-withheld")  # in a context: calls carry no trace
_KINDS: Final = frozenset((TraceContextTextMapPropagator, W3CBaggagePropagator))
CALLER: Final = "traceparent"
_last_seen: tuple[object, bool] = (None, False)  # propagators, and whether they are W3C's alone
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


def is_w3c_alone() -> bool:
    """Tell whether nothing but W3C's headers is read and written, the trace's among them."""
    global _last_seen  # noqa: PLW0603 - a cache of one
    chosen = _W3C if _api is None else _api.get_global_textmap()
    if chosen is not _last_seen[0]:
        inner = chosen._propagators if type(chosen) is CompositePropagator else (chosen,)
        kinds = set(map(type, inner))
        _last_seen = (chosen, TraceContextTextMapPropagator in kinds and kinds <= _KINDS)
    return _last_seen[1]


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
    carrier: Any,
    context: Context | None = None,
    getter: Getter[Any] = default_getter,
) -> Context:
    """Return the context that a call carries, above an empty one or another."""
    return propagator().extract(carrier, Context() if context is None else context, getter)


def inject(carrier: Any, context: Context | None = None) -> None:
    """Write the trace of a context, or of the current one, into what a call carries."""
    around = current() if context is None else context
    span = around.get(_SPAN_KEY)
    if WITHHELD in around:
        return
    if (
        type(span) is RecordedSpan
        and span.details is None  # else it may have a trace state, or an id that is not random
        and _BAGGAGE_KEY not in around
        and type(carrier) is dict
        and is_w3c_alone()
    ):
        carrier[CALLER] = "00-%032x-%016x-03" % (span.trace_id, span.span_id)  # noqa: UP031 - the quickest
    else:
        propagator().inject(carrier, around)
