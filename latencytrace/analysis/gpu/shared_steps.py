"""The members of a batch, and an estimate of what each cost the others."""

from collections.abc import Iterable, Mapping, Sequence

from latencytrace.analysis.trace.known_engines import have_engines, is_step
from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.model import (
    Link,
    Segment,
    ShareBasis,
    SharedStep,
    Span,
    Stage,
    StepMember,
    Trace,
    semconv,
)

_Place = tuple[str, str]  # trace id, span id
_SIZES = (semconv.BATCH_SIZE, semconv.TGI_BATCH_SIZE)


def shared_step(step: Span, linked: Iterable[Span]) -> SharedStep:
    """Apportion a shared step to its members.

    Args:
        linked: Spans of any trace, in any order; those that link to the step, or that it
            links to, are its members, but for those of its own trace.

    Returns:
        The members, the largest share first. Shares are an estimate: in proportion to
        the tokens that each member brought, where all of them are reported; else, and where
        the step is a decode step (a token for each), one part each. Integer nanoseconds
        that add up to the step's duration exactly, by largest remainder; ties go to the
        smaller trace id, then span id.
    """
    stage = stage_of(step)
    spans, links = _members(step, linked)
    places = sorted({*spans, *links})
    tokens = [_tokens(spans.get(place), links.get(place)) for place in places]
    size = max(_count(step, _SIZES) or 0, len(places))
    unknown = size - len(places)
    whole = _whole(step, tokens, unknown)
    by_tokens = bool(whole) and stage is not Stage.DECODE
    weights = [1] * len(places)
    unknown_weight = unknown
    if whole and by_tokens:
        weights = [count or 0 for count in tokens]
        unknown_weight = whole - sum(weights)
    wall_ns = max(step.end_ns - step.start_ns, 0)  # as a negative span is repaired
    shares_ns = apportioned(wall_ns, (*weights, unknown_weight if places or unknown else 1))
    members = (
        StepMember(
            trace_id=place[0],
            span_id=place[1],
            span=spans.get(place),
            tokens=count,
            share_ns=share_ns,
        )
        for place, count, share_ns in zip(places, tokens, shares_ns, strict=False)
    )
    return SharedStep(
        span=step,
        stage=stage,
        size=size,
        tokens=whole,
        wall_ns=wall_ns,
        basis=ShareBasis.TOKENS if by_tokens else ShareBasis.EQUAL,
        members=tuple(sorted(members, key=lambda member: -member.share_ns)),
        unknown_members=unknown,
        unknown_share_ns=shares_ns[-1],
    )


def apportioned(whole: int, weights: Sequence[int]) -> list[int]:
    """Apportion a number in proportion to weights, by largest remainder.

    Args:
        whole: Not negative.
        weights: Not negative, not all 0.

    Returns:
        Integers that add up to it, each less than 1 from its exact part. Where
        remainders tie, the first get more.
    """
    sum_of_weights = sum(weights)
    parts, remainders = zip(
        *(divmod(whole * weight, sum_of_weights) for weight in weights), strict=True
    )
    left = whole - sum(parts)
    largest = set(sorted(range(len(weights)), key=lambda at: -remainders[at])[:left])
    return [part + (at in largest) for at, part in enumerate(parts)]


def _members(
    step: Span, linked: Iterable[Span]
) -> tuple[Mapping[_Place, Span], Mapping[_Place, Link]]:
    """The members' spans, and the step's links to members, by place."""
    links = {
        (link.trace_id, link.span_id): link
        for link in step.links
        if link.trace_id != step.trace_id
    }
    spans = {
        (span.trace_id, span.span_id): span
        for span in linked
        if span.trace_id != step.trace_id
        and ((span.trace_id, span.span_id) in links or _leads_to(span, step))
    }
    return spans, links


def _leads_to(span: Span, step: Span) -> bool:
    return any(
        link.span_id == step.span_id and link.trace_id == step.trace_id for link in span.links
    )


def _tokens(span: Span | None, link: Link | None) -> int | None:
    reported = None if link is None else _count(link, (semconv.BATCH_TOKENS,))
    if reported is None and span is not None:
        reported = _count(span, (semconv.BATCH_TOKENS,))
    return reported


def _whole(step: Span, tokens: Sequence[int | None], unknown: int) -> int | None:
    """The tokens of all members, those unknown included; None: not reported."""
    reported = [count for count in tokens if count is not None]
    if len(reported) < len(tokens):
        return None
    if unknown == 0:
        return sum(reported) if reported else None
    whole = _count(step, (semconv.BATCH_TOKENS,))
    return whole if whole is not None and whole >= sum(reported) else None


def _count(reporter: Span | Link, keys: tuple[str, ...]) -> int | None:
    for key in keys:
        value = reporter.attributes.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


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
