"""Spans of one trace, by their numbers."""

from latencytrace.model import Span, SpanKind

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


def span(number: int, start_ns: int, end_ns: int, parent: int = 1, **more: object) -> Span:
    """A span below another; 0: below none."""
    usual: dict[str, object] = {
        "trace_id": TRACE_ID,
        "span_id": f"{number:016x}",
        "parent_id": f"{parent:016x}" if parent else None,
        "name": f"span {number}",
        "service": "rag",
        "scope": "mine",
        "start_ns": start_ns,
        "end_ns": end_ns,
    }
    return Span(**(usual | more))  # type: ignore[arg-type] # fields of a span


def root(end_ns: int = 100, **more: object) -> Span:
    """The first, which is a server's."""
    return span(1, 0, end_ns, parent=0, kind=SpanKind.SERVER, **more)
