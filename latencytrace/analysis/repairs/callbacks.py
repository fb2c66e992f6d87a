"""Hangs what ran inside a span that was never the current one below that span."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from latencytrace.analysis.trace.known_engines import engine_of, have_engines
from latencytrace.model import Span
from latencytrace.model.trace import parents_first

MAX_DEPTH = 64
MAX_SIBLINGS = 32  # of one parent that callbacks made; among more we do not search


def hung_inside(spans: Mapping[str, Span]) -> dict[str, Span]:
    """Hang spans that lie within the time of one beside them, made by a callback, below it.

    Left beside it, the model call in a chain would be taken for work that ran at the same
    time, and the chain, which ends later, for what the request waited for. That is how
    such instrumentations send their spans, so it is no repair to tell of. Within several
    at once, a span stays where it is. A chain that was cancelled ends before what it
    still waits for: it lasts as long as what is hung below it.

    Args:
        spans: By span id, each parent before its children.

    Returns:
        The same spans, again each parent before its children.
    """
    made = _made_by_callbacks(spans.values()) if have_engines(spans.values()) else {}
    if not made:
        return dict(spans)
    by_callbacks = {span.span_id: span for siblings in made.values() for span in siblings}
    ends_ns = _ends(by_callbacks, spans)
    hung = {}
    longer: dict[str, int] = {}
    for span_id, span in spans.items():
        stays = span.parent_id is None or span_id in by_callbacks  # or they could go round
        around = [] if stays else _around(span, made, ends_ns)
        hung[span_id] = replace(span, parent_id=around[-1].span_id) if around else span
        for outer in around:
            longer[outer.span_id] = max(longer.get(outer.span_id, outer.end_ns), span.end_ns)
    for span_id, end_ns in longer.items():
        if end_ns > hung[span_id].end_ns:
            hung[span_id] = replace(hung[span_id], end_ns=end_ns)
    return parents_first(hung)


def _made_by_callbacks(spans: Iterable[Span]) -> Mapping[str, Sequence[Span]]:
    """By their parent's span id."""
    made: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        engine = engine_of(span)
        if engine is not None and engine.never_current and span.parent_id is not None:
            made[span.parent_id].append(span)
    return made


def _ends(by_callbacks: Mapping[str, Span], spans: Mapping[str, Span]) -> Mapping[str, int]:
    """When each of them ended, or the last of them below it: one that is cancelled ends before.

    Args:
        by_callbacks: Spans that callbacks made, by span id.
        spans: All, each parent before its children.
    """
    ends_ns = {span_id: span.end_ns for span_id, span in by_callbacks.items()}
    for span_id in reversed(list(spans)):
        parent_id = spans[span_id].parent_id
        if span_id in ends_ns and parent_id in ends_ns:
            ends_ns[parent_id] = max(ends_ns[parent_id], ends_ns[span_id])
    return ends_ns


def _around(
    span: Span, made: Mapping[str, Sequence[Span]], ends_ns: Mapping[str, int]
) -> Sequence[Span]:
    """Chains that a span ran in, the outermost first; the innermost lasted as long itself."""
    found: list[Span] = []
    parent_id = span.parent_id or ""
    for _ in range(MAX_DEPTH):
        beside = made.get(parent_id, ())
        if len(beside) > MAX_SIBLINGS:
            break
        around = [other for other in beside if _lies_in(span, other, ends_ns[other.span_id])]
        if len(around) != 1:
            break
        found += around
        parent_id = around[0].span_id
    while found and found[-1].end_ns < span.end_ns:
        found.pop()
    return found


def _lies_in(span: Span, other: Span, end_ns: int) -> bool:
    return (
        span.scope != other.scope
        and span.service == other.service
        and other.start_ns <= span.start_ns
        and span.end_ns <= end_ns
    )


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
