"""The phases of a request's network time: connecting, sending, waiting and the like."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from latencytrace.model import Segment, SpanKind, Stage, Trace, semconv
from latencytrace.model.packed.interval import unpack_named

PHASES = ("connect", "tls", "send", "wait", "receive")
UNTRACED = "untraced"  # a whole call whose client reported none, of a server without spans
OTHER = "other"  # no phase that its client reported: waiting for a connection, most often


def network_phases(trace: Trace, segments: Iterable[Segment]) -> dict[str, int]:
    """Split the critical path's network time by what the calling client reported.

    Args:
        segments: Critical path of the request.

    Returns:
        Nanoseconds by phase, `PHASES` in order, `UNTRACED`, then `OTHER`; they add up to the
        ledger's network time. `wait` is that for the first byte of the answer, less the time that
        the server's own span explains: the way there and back, and what comes before it.
    """
    spent: dict[str, int] = defaultdict(int)
    for segment in segments:
        if segment.stage is not Stage.NETWORK:
            continue
        left_ns = segment.end_ns - segment.start_ns
        for phase, start_ns, end_ns in _phases(trace, segment.span_id):
            within_ns = min(end_ns, trace.root.start_ns + segment.end_ns) - max(
                start_ns, trace.root.start_ns + segment.start_ns
            )
            if 0 < within_ns <= left_ns:
                spent[phase] += within_ns
                left_ns -= within_ns
        spent[OTHER] += left_ns
    return {phase: spent[phase] for phase in (*PHASES, UNTRACED, OTHER) if spent[phase]}


def _phases(trace: Trace, span_id: str) -> Iterator[tuple[str, int, int]]:
    span = trace.unclipped.get(span_id)
    if span is None:
        return
    packed = span.attributes.get(semconv.NETWORK_PHASES)
    if not isinstance(packed, str):
        below = trace.children.get(span_id, ())
        if span.kind is SpanKind.CLIENT and all(one.service == span.service for one in below):
            yield UNTRACED, span.start_ns, span.end_ns
        return
    try:
        reported = list(unpack_named(packed, span.start_ns))
    except ValueError:  # whatever a sender calls phases
        return
    yield from ((phase, start, end) for phase, start, end in reported if phase in PHASES)
