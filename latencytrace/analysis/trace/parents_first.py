"""The order that trees of spans are walked in."""

from collections import defaultdict
from collections.abc import Mapping

from latencytrace.model import Span


def parents_first(spans: Mapping[str, Span]) -> dict[str, Span]:
    """The same spans, each parent before its children.

    Args:
        spans: By span id, without cycles, the parent of each among them.
    """
    children = defaultdict(list)
    for span in spans.values():
        children[span.parent_id].append(span)
    ordered: dict[str, Span] = {}
    pending = children[None]
    while pending:
        span = pending.pop()
        ordered[span.span_id] = span
        pending.extend(children.get(span.span_id, ()))
    return ordered
