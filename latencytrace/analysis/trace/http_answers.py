"""The answers that HTTP calls got."""

from latencytrace.model import Span, SpanKind, StatusCode, semconv

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
