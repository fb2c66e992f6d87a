"""Spans that are but parts of the span above: an engine's decode steps, one of thousands."""

from collections.abc import Mapping, Sequence

from latencytrace.analysis.trace.known_engines import have_engines, is_step
from latencytrace.model import Segment, Span, Stage, Trace


def with_steps(spans: Mapping[str, Span], stages: Mapping[str, Stage]) -> dict[str, Stage]:
    """Give steps without a stage of their own that of the span above.

    Args:
        spans: By span id, each parent before its children.
        stages: By span id.
    """
    found = dict(stages)
    if not have_engines(spans.values()):
        return found
    for span_id, span in spans.items():
        if found[span_id] is Stage.OTHER and span.parent_id is not None and is_step(span):
            found[span_id] = found[span.parent_id]
    return found


def without_steps(trace: Trace, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """A critical path in which steps are charged to what they are steps of.

    A step of another stage than the span above keeps its segments. Every instant keeps
    its stage; neighbours that become one are joined.
    """
    charged = _charged(trace)
    if not charged:
        return tuple(segments)
    joined: list[Segment] = []
    for segment in segments:
        span_id, name = segment.span_id, segment.name
        whole = charged.get(span_id)
        if whole is not None and trace.stages[span_id] is segment.stage:
            span_id, name = whole.span_id, whole.name
        last = joined[-1] if joined else None
        started_ns = segment.start_ns
        if last is not None and last.span_id == span_id and last.stage is segment.stage:
            started_ns = joined.pop().start_ns
        joined.append(
            Segment(
                start_ns=started_ns,
                end_ns=segment.end_ns,
                stage=segment.stage,
                span_id=span_id,
                name=name,
            )
        )
    return tuple(joined)


def _charged(trace: Trace) -> dict[str, Span]:
    """Return what each step is a step of, by the step's id."""
    charged: dict[str, Span] = {}
    if not have_engines(trace.spans.values()):
        return charged
    for span_id, span in trace.spans.items():
        parent = trace.spans.get(span.parent_id or "")
        if parent is None or span is trace.root:
            continue
        if trace.stages[span_id] is trace.stages[parent.span_id] and is_step(span):
            charged[span_id] = charged.get(parent.span_id, parent)
    return charged
