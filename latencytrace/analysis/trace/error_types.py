"""Types of the exceptions that spans failed with, and the one that failed a request."""

from collections.abc import Iterable

from latencytrace.model import Event, Span, SpanKind, Stage, StatusCode, Trace, semconv

FIRST_CLIENT_ERROR = 400
FIRST_SERVER_ERROR = 500


def http_code(span: Span) -> int:
    """Return the status of the answer; 0: there is none."""
    code = span.attributes.get(semconv.HTTP_RESPONSE_STATUS_CODE)
    if code is None:
        code = span.attributes.get(semconv.HTTP_STATUS_CODE_OLD)
    return code if type(code) is int else 0


def server_error(span: Span) -> int | None:
    """The status of the answer to a call that its server failed to answer; None: it did not."""
    code = http_code(span)
    return code if span.kind is SpanKind.CLIENT and code >= FIRST_SERVER_ERROR else None


def has_failed(span: Span) -> bool:
    """Return whether it says so, or is a call that its server failed to answer."""
    return span.status is StatusCode.ERROR or server_error(span) is not None


def is_refused(span: Span) -> bool:
    """Tell whether a call was answered that it asked wrongly, or for what is not there.

    OpenTelemetry calls its span an error. A caller may have asked whether it is there,
    as caches and downloads do, so this alone is no failure.
    """
    is_call = span.kind is SpanKind.CLIENT
    return is_call and FIRST_CLIENT_ERROR <= http_code(span) < FIRST_SERVER_ERROR


MOST_CHARACTERS = 200
_CLEANING_UP = frozenset({Stage.RESPOND, Stage.DATABASE})  # is begun after a failure too


def error_type(span: Span) -> str | None:
    """The type of the exception that a span failed with; never its message.

    Returns:
        What its last event `exception` says; else its `error.type`, or the status of the answer
        that its server failed with, as `503`; None, where it says neither.
    """
    reported = span.attributes.get(semconv.ERROR_TYPE)
    if reported is None and (code := server_error(span)) is not None:
        reported = str(code)
    if span.status is StatusCode.ERROR or reported is not None:  # else it was recorded and handled
        reported = next(map(_exception_type, reversed(_exceptions(span.events))), None) or reported
    return reported[:MOST_CHARACTERS] if isinstance(reported, str) and reported else None


def failed_by(trace: Trace) -> tuple[Span, str] | None:
    """The span with the exception that failed a request, and its type.

    The request's own span names it, or else, where that tells the status of an answer or
    nothing, the failed child that ended last, or that one's, and so on: it was raised there, and
    became an answer above. Not where other work was begun after it: then it was handled. The
    span is the innermost that failed with this type.
    """
    found = error_type(trace.root)
    if found is None and trace.root.status is not StatusCode.ERROR:
        return None
    best = (trace.root, found)
    span = _failed_child(trace, trace.root)
    while span is not None:
        found = error_type(span)
        if found is not None and (best[1] is None or _is_status(best[1]) or found == best[1]):
            best = (span, found)
        span = _failed_child(trace, span)
    return None if best[1] is None else (best[0], best[1])


def _failed_child(trace: Trace, span: Span) -> Span | None:
    """The child that failed last, unless other work was begun after it."""
    children = trace.children.get(span.span_id, ())
    last = max(
        filter(_failed, children),
        key=lambda child: (child.end_ns, child.start_ns, child.span_id),
        default=None,
    )
    if last is None:
        return None
    later = (child for child in children if child.start_ns >= last.end_ns and child is not last)
    return None if any(_is_work(trace, child) for child in later) else last


def _failed(span: Span) -> bool:
    return has_failed(span) or semconv.ERROR_TYPE in span.attributes


def _is_work(trace: Trace, span: Span) -> bool:
    stage = trace.stages[span.span_id]
    return stage.explains and stage not in _CLEANING_UP and span.start_ns < span.end_ns


def _is_status(found: str) -> bool:
    return found.isdigit()


def _exceptions(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.name == semconv.EXCEPTION_EVENT]


def _exception_type(event: Event) -> str | None:
    reported = event.attributes.get(semconv.EXCEPTION_TYPE)
    return reported if isinstance(reported, str) and reported else None
