"""Which spans are requests: what a caller asked of a service once."""

from latencytrace.model import Span, SpanKind

ENTRY_KINDS = frozenset({SpanKind.SERVER, SpanKind.CONSUMER})  # a message is answered, too


def is_request(span: Span, parent: Span | None) -> bool:
    """Whether a span is a root, or a server or consumer called by another service.

    Engines mark spans inside one service SERVER as well (Triton, vLLM, Ray); those are
    no requests.
    """
    if parent is None:
        return True
    return span.kind in ENTRY_KINDS and span.service != parent.service
