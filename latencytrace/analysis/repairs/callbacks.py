"""Hangs what ran inside a span that was never the current one below that span."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from latencytrace.analysis.trace.known_engines import engine_of, have_engines
from latencytrace.analysis.trace.parents_first import parents_first
from latencytrace.model import Span

MAX_DEPTH = 64
MAX_SIBLINGS = 32  # of one parent that callbacks made; among more we do not search


def hung_inside(spans: Mapping[str, Span]) -> dict[str, Span]:
    """Hang spans that lie within the time of one beside them, made by a callback, below it.

    Left beside it, the model call in a chain would be taken for work that ran at the same
    time, and the chain, which ends later, for what the request waited for. That is how
    such instrumentations send their spans, so it is no repair to tell of. Within several
    at once, a span stays where it is.

    Args:
        spans: By span id, each parent before its children.

    Returns:
        The same spans, again each parent before its children.
    """
    made = _made_by_callbacks(spans.values()) if have_engines(spans.values()) else {}
    if not made:
        return dict(spans)
    by_callbacks = {span.span_id for siblings in made.values() for span in siblings}
    hung = {}
    for span_id, span in spans.items():
        stays = span.parent_id is None or span_id in by_callbacks  # or they could go round
        inner = None if stays else _innermost(span, made)
        hung[span_id] = span if inner is None else replace(span, parent_id=inner.span_id)
    return parents_first(hung)


def _made_by_callbacks(spans: Iterable[Span]) -> Mapping[str, Sequence[Span]]:
    """By their parent's span id."""
    made: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        engine = engine_of(span)
        if engine is not None and engine.never_current and span.parent_id is not None:
            made[span.parent_id].append(span)
    return made


def _innermost(span: Span, made: Mapping[str, Sequence[Span]]) -> Span | None:
    inner: Span | None = None
    parent_id = span.parent_id or ""
    for _ in range(MAX_DEPTH):
        beside = made.get(parent_id, ())
        if len(beside) > MAX_SIBLINGS:
            break
        around = [other for other in beside if _lies_in(span, other)]
        if len(around) != 1:
            break
        inner = around[0]
        parent_id = inner.span_id
    return inner


def _lies_in(span: Span, other: Span) -> bool:
    return (
        span.scope != other.scope
        and span.service == other.service
        and other.start_ns <= span.start_ns
        and span.end_ns <= other.end_ns
    )
