"""The trace that a request's headers carry.

Speed is the point here: the form of `traceparent` that all tracers write is read by hand, in a
microsecond. Whatever else there is, OpenTelemetry's propagators read; they are the test's oracle,
too (`tests/agent/toolkit/http/test_caller.py`).
"""

from collections.abc import Callable
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # what set_span_in_context sets, four calls deep
)

from latencytrace.agent.spans.tracer import TRACE_ID
from latencytrace.agent.toolkit.http.propagation import is_w3c_alone

NO_CALLER: Final = Context()
_DASH: Final = ord("-")
_HEX: Final = b"0123456789abcdef"
_LENGTH: Final = 55  # of `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits
_ALONE: Final = frozenset((_SPAN_KEY, TRACE_ID))  # what most callers send, and we decide on


def caller_of(
    traceparent: bytes | None, extract: Callable[[], Context], *, has_more: bool
) -> Context:
    """Return the context that a request's headers carry.

    Args:
        traceparent: The header of this name; None: there is none.
        has_more: There is a `tracestate` or `baggage`, or more than one `traceparent`.
    """
    if not has_more and is_w3c_alone():
        if traceparent is None:
            return NO_CALLER
        found = remote_parent(traceparent)
        if found is not None:
            return found
    return extract()


def carried_beside(caller: Context) -> Context | None:
    """Return what a caller sends with its span, such as baggage; None: nothing."""
    if caller.keys() <= _ALONE:
        return None
    return Context({key: value for key, value in caller.items() if key not in _ALONE})


def remote_parent(traceparent: bytes) -> Context | None:
    """Return a context with the span that a header names; None: it is not of the usual form."""
    if (
        len(traceparent) != _LENGTH
        or traceparent[:3] != b"00-"
        or traceparent[35] != _DASH
        or traceparent[52] != _DASH
        or traceparent.translate(None, _HEX) != b"---"
    ):
        return None
    trace_id, span_id = int(traceparent[3:35], 16), int(traceparent[36:52], 16)
    if not (trace_id and span_id):
        return None
    parent = SpanContext(
        trace_id,
        span_id,
        is_remote=True,
        trace_flags=TraceFlags(int(traceparent[53:], 16)),
    )
    return Context({_SPAN_KEY: NonRecordingSpan(parent)})
