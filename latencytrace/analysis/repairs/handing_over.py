"""Hangs work that was handed over below the span that goes on around it."""

from collections.abc import Mapping
from dataclasses import replace

from latencytrace.analysis.trace.known_engines import engine_of, have_engines
from latencytrace.model import Span


def handed_over(spans: Mapping[str, Span]) -> dict[str, Span]:
    """Hang what outlives a span that only hands over below the next one above.

    A router's span ends when a replica has taken the request, and the replica's span is
    its child: clipped to it, the replica's work would be lost. That is how these engines
    mean their spans, so it is no repair to tell of.

    Args:
        spans: By span id, each parent before its children.
    """
    hung = dict(spans)
    if not have_engines(spans.values()):
        return hung
    for span_id, span in spans.items():
        parent = hung.get(span.parent_id or "")
        if (
            parent is not None
            and parent.parent_id is not None
            and span.end_ns > parent.end_ns
            and _hands_over(parent)
        ):
            hung[span_id] = replace(span, parent_id=parent.parent_id)
    return hung


def _hands_over(span: Span) -> bool:
    engine = engine_of(span)
    return engine is not None and span.name.startswith(engine.hands_over)
