"""Time that nothing explains but the process itself: it collected garbage, or had no thread."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from latencytrace.model import Segment, Span, Stage, Trace, semconv
from latencytrace.model.packed import RuntimeGap, stage_of_gap, title_of_gap, unpack_named

Gap = tuple[int, int, str]  # start and end from the request's start; its name

COLLECTION = title_of_gap(RuntimeGap.GARBAGE_COLLECTION)


def with_runtime(trace: Trace, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """A critical path in which gaps of the process fill what is unattributed.

    Only that of spans of the same process, and only what no span explains. What of it is packed
    on a span as an interval is a collection of garbage in the midst of that span's own code.

    Args:
        segments: Critical path of the request.

    Returns:
        Segments that partition the same time; those filled are named after the gap.
    """
    gaps = {(span.service, span.instance): list(_gaps(trace, span)) for span in _reporting(trace)}
    if not gaps and not any(segment.stage is Stage.RUNTIME for segment in segments):
        return tuple(segments)
    found: list[Segment] = []
    for segment in segments:
        span = trace.spans[segment.span_id]
        if segment.stage is Stage.UNATTRIBUTED:
            found += _filled(segment, gaps.get((span.service, span.instance), ()))
        elif segment.stage is Stage.RUNTIME and trace.stages[span.span_id] is not Stage.RUNTIME:
            found.append(replace(segment, name=COLLECTION))
        else:
            found.append(segment)
    return tuple(found)


def _reporting(trace: Trace) -> Iterator[Span]:
    """The spans that tell gaps, the outermost last: of a process it tells the most."""
    found = [span for span in trace.unclipped.values() if semconv.RUNTIME_GAPS in span.attributes]
    yield from sorted(found, key=lambda span: (-span.start_ns, span.span_id))


def _gaps(trace: Trace, span: Span) -> Iterator[Gap]:
    """In order of time, without overlap."""
    packed = span.attributes[semconv.RUNTIME_GAPS]
    if not isinstance(packed, str):
        return
    try:
        reported = sorted(
            (start_ns, end_ns, name) for name, start_ns, end_ns in unpack_named(packed, 0)
        )
    except ValueError:  # whatever a sender calls gaps
        return
    before_ns = span.start_ns - trace.root.start_ns
    for start_ns, end_ns, name in reported:
        since_ns = max(start_ns + span.start_ns - trace.root.start_ns, before_ns)
        until_ns = end_ns + span.start_ns - trace.root.start_ns
        if since_ns < until_ns:
            yield since_ns, until_ns, name
            before_ns = until_ns


def _filled(segment: Segment, gaps: Sequence[Gap]) -> Iterator[Segment]:
    at_ns = segment.start_ns
    for start_ns, end_ns, name in gaps:
        since_ns, until_ns = max(start_ns, at_ns), min(end_ns, segment.end_ns)
        if since_ns < until_ns:
            if at_ns < since_ns:
                yield replace(segment, start_ns=at_ns, end_ns=since_ns)
            yield replace(
                segment,
                start_ns=since_ns,
                end_ns=until_ns,
                stage=stage_of_gap(name),
                name=title_of_gap(name),
            )
            at_ns = until_ns
    if at_ns == segment.start_ns:
        yield segment
    elif at_ns < segment.end_ns:
        yield replace(segment, start_ns=at_ns)
