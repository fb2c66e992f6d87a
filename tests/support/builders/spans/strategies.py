"""Hypothesis strategies for the values of `latencytrace.model`.

Times are few and small on purpose, so that spans touch, tie and contain each other often.
"""

from dataclasses import replace

from hypothesis import strategies as st

from latencytrace.model import (
    AttributeValue,
    Interval,
    Link,
    Span,
    SpanKind,
    Stage,
    StatusCode,
    Trace,
    pack_intervals,
    semconv,
)

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
LAST_NS = 40

_SPAN_IDS = st.sampled_from([f"{number:016x}" for number in range(1, 9)])
_SERVICES = st.sampled_from(["gateway", "rag"])
_STAGES = st.sampled_from(Stage)
_TIMES_NS = st.integers(0, LAST_NS)


@st.composite
def intervals(draw: st.DrawFn, start_ns: int = 0, end_ns: int = LAST_NS) -> tuple[Interval, ...]:
    """Intervals within a span; those of one stage do not overlap, those of others may."""
    found = []
    for stage in draw(st.lists(_STAGES, max_size=2, unique=True)):
        times_ns = sorted(draw(st.lists(st.integers(start_ns, end_ns), max_size=6, unique=True)))
        found += [
            Interval(stage=stage, start_ns=begin_ns, end_ns=finish_ns)
            for begin_ns, finish_ns in zip(times_ns[::2], times_ns[1::2], strict=False)
        ]
    return tuple(sorted(found, key=lambda found: (found.start_ns, found.end_ns, found.stage)))


@st.composite
def attributes(draw: st.DrawFn, start_ns: int) -> dict[str, AttributeValue]:
    """What the analysis reads, well-formed or not."""
    noted: dict[str, AttributeValue] = {}
    packed: st.SearchStrategy[AttributeValue] = st.one_of(
        intervals(start_ns, start_ns + LAST_NS).map(lambda found: pack_intervals(found, start_ns)),
        st.sampled_from(["respond:1+", "nothing:1+2", "", "respond:0+5,0+5", 7]),
    )
    strategies: dict[str, st.SearchStrategy[AttributeValue]] = {
        semconv.STAGE: st.one_of(_STAGES.map(str), st.just("no such stage")),
        semconv.INTERVALS: packed,
        semconv.GEN_AI_OPERATION_NAME: st.sampled_from(["chat", "embeddings", "plan"]),
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: st.one_of(st.integers(-1, 9), st.just("many")),
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: st.floats(),
        semconv.HTTP_REQUEST_METHOD: st.just("GET"),
        semconv.SERVER_ADDRESS: st.just("vectors"),
        semconv.HTTP_REQUEST_RESEND_COUNT: st.integers(-1, 2),
    }
    for key, values in strategies.items():
        if draw(st.integers(0, 3)) == 0:
            noted[key] = draw(values)
    return noted


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """A span of a small trace, with any parent (itself, none, one that never comes) and times."""
    start_ns = draw(_TIMES_NS)
    return Span(
        trace_id=TRACE_ID,
        span_id=draw(_SPAN_IDS),
        parent_id=draw(st.one_of(st.none(), _SPAN_IDS)),
        name=draw(st.sampled_from(["POST /chat", "POST /chat http send", "search"])),
        kind=draw(st.sampled_from(SpanKind)),
        service=draw(_SERVICES),
        start_ns=start_ns,
        end_ns=draw(st.integers(max(start_ns - 3, 0), LAST_NS)),
        status=draw(st.sampled_from(StatusCode)),
        attributes=draw(attributes(start_ns)),
        links=tuple(
            Link(trace_id=TRACE_ID, span_id=span_id)
            for span_id in draw(st.lists(_SPAN_IDS, max_size=1))
        ),
    )


def heaps() -> st.SearchStrategy[list[Span]]:
    """Spans of one trace id as they may arrive.

    Skewed, overlapping, lost, sent twice, of one id with different content, in
    circles, and ended before they started.
    """
    return st.lists(spans(), max_size=12).flatmap(
        lambda arrived: (
            st.lists(st.sampled_from(arrived), max_size=2).map(lambda again: arrived + again)
            if arrived
            else st.just(arrived)
        )
    )


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """A well-formed trace: every child lies within its parent; children in any order.

    Of those that end with their parent some were clipped: they went on after it.
    """
    root = _well_formed(draw, 0, None)
    tree = [root]
    for number in range(1, draw(st.integers(1, 9))):
        tree.append(_well_formed(draw, number, draw(st.sampled_from(tree))))
    shuffled = draw(st.permutations(tree))
    spans = {span.span_id: span for span in tree}
    unclipped = {
        span.span_id: replace(span, end_ns=span.end_ns + draw(st.integers(0, 2)))
        if span.parent_id and span.end_ns == spans[span.parent_id].end_ns
        else span
        for span in tree
    }
    return Trace(
        root=root,
        outermost=True,
        spans=spans,
        unclipped=unclipped,
        children={
            parent.span_id: tuple(span for span in shuffled if span.parent_id == parent.span_id)
            for parent in tree
        },
        stages={span.span_id: draw(_STAGES) for span in tree},
        intervals={span.span_id: draw(intervals(span.start_ns, span.end_ns)) for span in tree},
    )


def _well_formed(draw: st.DrawFn, number: int, parent: Span | None) -> Span:
    first_ns, last_ns = (parent.start_ns, parent.end_ns) if parent else (1_000, 1_000 + LAST_NS)
    start_ns, end_ns = sorted(
        draw(st.tuples(st.integers(first_ns, last_ns), st.integers(first_ns, last_ns)))
    )
    return Span(
        trace_id=TRACE_ID,
        span_id=f"{number:016x}",
        parent_id=parent.span_id if parent else None,
        name=f"span {number}",
        host=draw(st.sampled_from(["here", "here", "there"])),
        start_ns=start_ns if parent else first_ns,
        end_ns=end_ns if parent else last_ns,
    )
