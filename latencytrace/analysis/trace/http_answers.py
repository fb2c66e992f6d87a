"""The answers that HTTP calls got."""

from latencytrace.model import Span, SpanKind, semconv

FIRST_CLIENT_ERROR = 400
FIRST_SERVER_ERROR = 500


def http_code(span: Span) -> int:
    """Return the status of the answer; 0: there is none."""
    code = span.attributes.get(semconv.HTTP_RESPONSE_STATUS_CODE)
    if code is None:
        code = span.attributes.get(semconv.HTTP_STATUS_CODE_OLD)
    return code if type(code) is int else 0


def is_refused(span: Span) -> bool:
    """Tell whether a call was answered that it asked wrongly, or for what is not there.

    OpenTelemetry calls its span an error. A caller may have asked whether it is there,
    as caches and downloads do, so this alone is no failure.
    """
    is_call = span.kind is SpanKind.CLIENT
    return is_call and FIRST_CLIENT_ERROR <= http_code(span) < FIRST_SERVER_ERROR
