"""The purposes of calls to servers that we cannot see."""

from collections.abc import Mapping

from latencytrace.model import Span, SpanKind, Stage


def with_purposes(spans: Mapping[str, Span], stages: Mapping[str, Stage]) -> dict[str, Stage]:
    """Give client spans whose server is not in the trace the stage that they serve.

    A vector search made over HTTP is `retrieve`, not `network`: we cannot tell the
    way there from the work, and the span above says what both are for. It takes the
    stage of the nearest span above it, within its service, that explains something.

    Args:
        spans: By span id, each parent before its children.
        stages: By span id.
    """
    if Stage.NETWORK not in stages.values():
        return dict(stages)
    answered = _answered(spans)
    purposes: dict[str, Stage | None] = {}
    resolved = dict(stages)
    for span_id, span in spans.items():
        stage = stages[span_id]
        parent = None if span.parent_id is None else spans[span.parent_id]
        above = None
        if parent is not None and parent.service == span.service:
            above = purposes[parent.span_id]
        if stage is not Stage.NETWORK:
            purposes[span_id] = stage if stage.explains else above
            continue
        purposes[span_id] = above
        if above is not None and span.kind is SpanKind.CLIENT and span_id not in answered:
            resolved[span_id] = above
    return resolved


def _answered(spans: Mapping[str, Span]) -> frozenset[str]:
    """The spans with a span of another service somewhere below them."""
    answered = set()
    for span in reversed(list(spans.values())):
        if span.parent_id is not None and (
            span.span_id in answered or span.service != spans[span.parent_id].service
        ):
            answered.add(span.parent_id)
    return frozenset(answered)
