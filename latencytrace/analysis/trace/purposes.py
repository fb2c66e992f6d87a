"""The purpose of calls, whether their servers are in the trace or not."""

from collections.abc import Mapping

from latencytrace.analysis.trace.is_request import is_entry
from latencytrace.model import Span, SpanKind, Stage

PLACED_NOWHERE = frozenset({Stage.OTHER, Stage.UNATTRIBUTED})
# The caller waits for all that is done for such a call.
CALLS = frozenset(
    {
        Stage.CACHE, Stage.DATABASE, Stage.EMBED, Stage.GUARDRAIL, Stage.REMOTE_MODEL,
        Stage.RERANK, Stage.RETRIEVE, Stage.TOOL,
    }
)  # fmt: skip


def within_calls(spans: Mapping[str, Span], stages: Mapping[str, Stage]) -> dict[str, Stage]:
    """Give spans without a stage of their own that of the call around them.

    A vector database that traces itself says of its server span only that it is one; to the
    request that called it, that time is `retrieve`. The nearest call above counts, of any
    service. In the request of the database itself there is no call above.

    Args:
        spans: One request's, by span id, each parent before its children.
        stages: By span id.

    Returns:
        Stages by span id.
    """
    resolved: dict[str, Stage] = {}
    calls: dict[str, Stage | None] = {}
    for span_id, span in spans.items():
        stage, call = stages[span_id], calls.get(span.parent_id or "")
        resolved[span_id] = call if call is not None and stage in PLACED_NOWHERE else stage
        calls[span_id] = stage if stage in CALLS else call
    return resolved


def with_purposes(spans: Mapping[str, Span], stages: Mapping[str, Stage]) -> dict[str, Stage]:
    """Give client spans the stage `network`, or the one that they serve.

    What a client span that no table places spends outside the server span that it caused is
    `network`. A call whose server is not in the trace has the stage of what it was made for:
    a vector search made over HTTP is `retrieve`, not `network`: we cannot tell the
    way there from the work, and the span above says what both are for. It takes the
    stage of the nearest span above it, within its service, that explains something.

    Args:
        spans: By span id, each parent before its children.
        stages: By span id.
    """
    resolved = dict(stages)
    for span in spans.values():
        caller = _caller(span, spans)
        if caller is not None and stages[caller] in PLACED_NOWHERE:
            resolved[caller] = Stage.NETWORK
    if Stage.NETWORK not in resolved.values():
        return resolved
    answered = _answered(spans)
    purposes: dict[str, Stage | None] = {}
    for span_id, span in spans.items():
        stage = resolved[span_id]
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


def _caller(span: Span, spans: Mapping[str, Span]) -> str | None:
    """Return the client span of another service that caused a server span."""
    parent = None if span.parent_id is None else spans[span.parent_id]
    if parent is None or parent.kind is not SpanKind.CLIENT or parent.service == span.service:
        return None
    return parent.span_id if is_entry(span) else None


def _answered(spans: Mapping[str, Span]) -> frozenset[str]:
    """The spans with a span of another service somewhere below them."""
    answered = set()
    for span in reversed(list(spans.values())):
        if span.parent_id is not None and (
            span.span_id in answered or span.service != spans[span.parent_id].service
        ):
            answered.add(span.parent_id)
    return frozenset(answered)
