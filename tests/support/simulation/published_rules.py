"""The rules of Jaeger and CRISP in their plain form, to hold ours against them.

Source: Jaeger's critical path (walk back to the child that ended last, then to the one that
ended before that one started), and Zhang et al., CRISP, USENIX ATC 2022, section 3, with the
overlap that its program takes for a clock's error.
"""

from collections.abc import Callable, Iterator, Sequence

from latencytrace.model import Span, Trace

OVERLAP = 0.01  # of the parent: so much later than its successor's start a child may end

Charged = dict[str, int]  # by the name of a span: how long it is charged; 0 is left out


def by_jaeger(trace: Trace) -> Charged:
    """Jaeger: whoever follows must have ended before, not as, its successor starts."""
    return _charged(trace, lambda child, later, _: child.end_ns < later.start_ns)


def by_crisp(trace: Trace) -> Charged:
    """CRISP: as it starts, or, if that is by less than a hundredth of the parent, after it."""
    return _charged(trace, _happens_before)


def _happens_before(child: Span, later: Span, parent: Span) -> bool:
    overlap_ns = child.end_ns - later.start_ns
    return child.start_ns < later.start_ns and overlap_ns < OVERLAP * (
        parent.end_ns - parent.start_ns
    )


def _charged(trace: Trace, before: Callable[[Span, Span, Span], bool]) -> Charged:
    found: Charged = {}
    pending = [trace.root]
    while pending:
        span = pending.pop()
        followed = list(_followed(span, trace.children.get(span.span_id, ()), before))
        below_ns = sum(child.end_ns - child.start_ns for child in followed)
        own_ns = max(0, span.end_ns - span.start_ns - below_ns)  # overlaps are counted twice
        if own_ns:
            found[span.name] = own_ns
        pending += followed
    return found


def _followed(
    parent: Span, children: Sequence[Span], before: Callable[[Span, Span, Span], bool]
) -> Iterator[Span]:
    """The children that a span waited for, from the last one back."""
    later: Span | None = None
    for child in sorted(children, key=lambda child: -child.end_ns):
        lasted = child.start_ns < child.end_ns  # what lay outside its parent is cut to nothing
        if lasted and (later is None or before(child, later, parent)):
            yield child
            later = child
