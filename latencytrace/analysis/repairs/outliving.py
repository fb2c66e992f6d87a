"""Hangs spans that outlive the one they were started in where they truly ran."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from latencytrace.analysis.trace.known_engines import engine_of, have_engines
from latencytrace.model import Span
from latencytrace.model.trace import parents_first

MAX_DEPTH = 64
MAX_SIBLINGS = 64  # beside each other; among more we do not search

_FRAMEWORKS = ("fastapi", "starlette")


def outliving(spans: Mapping[str, Span]) -> dict[str, Span]:
    """Hang what is started in a step of the framework below what lasts as long.

    LiteLLM's proxy starts the span of a request (or, typed, of a call) while FastAPI solves
    its dependencies: clipped to those, all that it did would be lost. It goes below the
    next span above that it lies in, or below a step there, such as the endpoint, that it
    lies in. Of its children, and of the framework's steps that end later than it (the
    endpoint), some have none and tell but that they ran: what lies in one goes below it,
    or it would win that time. That is how these spans are sent, so it is no repair to tell of.

    Args:
        spans: By span id, each parent before its children.

    Returns:
        The same spans, again each parent before its children.
    """
    found = _found(spans)
    if not found:
        return dict(spans)
    hung = dict(spans)
    children = defaultdict(list)
    for span in spans.values():
        children[span.parent_id].append(span)
    for request in found.values():
        above = _lasting(request, spans)
        own = beside = children[request.span_id]
        if above is not None:
            steps = [step for step in children[above.span_id] if _is_later_step(step, request)]
            within = [step for step in steps if _lies_in(request, step)]
            below = within[0] if len(within) == 1 else above
            hung[request.span_id] = replace(request, parent_id=below.span_id)
            beside = [*own, *steps]
        bare = [span for span in beside if not children[span.span_id]]
        if len(bare) > MAX_SIBLINGS:
            continue
        for child in own:
            around = _innermost(child, bare)
            if around is not None and child.span_id not in found:
                hung[child.span_id] = replace(child, parent_id=around.span_id)
    return parents_first(hung)


def _found(spans: Mapping[str, Span]) -> dict[str, Span]:
    """Return what outlives the step it was started in, if there is any."""
    if not have_engines(spans.values()):
        return {}
    return {
        span_id: span
        for span_id, span in spans.items()
        if (engine := engine_of(span)) is not None and engine.outlives(span)
    }


def _lasting(span: Span, spans: Mapping[str, Span]) -> Span | None:
    """The nearest span above that another lies in."""
    above = spans.get(span.parent_id or "")
    for _ in range(MAX_DEPTH):
        if above is None or _lies_in(span, above):
            return above
        above = spans.get(above.parent_id or "")
    return None


def _is_later_step(step: Span, span: Span) -> bool:
    return (
        step.scope.startswith(_FRAMEWORKS)
        and step.service == span.service
        and step.end_ns >= span.end_ns
    )


def _innermost(span: Span, bare: Iterable[Span]) -> Span | None:
    """The shortest that a span lies in; of two that are alike only one lies in the other."""
    around = [other for other in bare if _lies_in(span, other) and _size(span) < _size(other)]
    return min(around, key=_size, default=None)


def _lies_in(span: Span, other: Span) -> bool:
    return other.start_ns <= span.start_ns and span.end_ns <= other.end_ns


def _size(span: Span) -> tuple[int, str]:
    return span.end_ns - span.start_ns, span.span_id
