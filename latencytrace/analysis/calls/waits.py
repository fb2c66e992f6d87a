"""Own time of a span that was but a wait: for the next attempt of a call, or for a message."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from latencytrace.model import Segment, Span, Stage, Trace

WORK = frozenset(  # what a span may have done itself between two calls
    {
        Stage.PREPROCESS, Stage.TOKENIZE, Stage.TRANSFER, Stage.PREFILL, Stage.DECODE,
        Stage.FORWARD, Stage.DETOKENIZE, Stage.POSTPROCESS, Stage.RESPOND, Stage.LOAD,
    }
)  # fmt: skip


class _Wait(NamedTuple):
    """A time that a span waited, from the request's start."""

    start_ns: int
    end_ns: int
    stage: Stage
    charged: Span


def works_itself(trace: Trace, span_id: str | None) -> bool:
    """Return whether a span may have worked itself while it seems to wait."""
    return span_id is not None and trace.stages[span_id] in WORK


def with_all_below(
    span_id: str, children: Mapping[str, Sequence[Span]], known: Container[str]
) -> Iterator[str]:
    """A span and what lies below it, but for what is known and lies below that."""
    pending = [span_id]
    while pending:
        above = pending.pop()
        if above not in known:
            yield above
            pending.extend(child.span_id for child in children.get(above, ()))


def with_waits(trace: Trace, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """A critical path in which failed attempts are one line each, with the waits after them.

    What a failed attempt holds below it is charged to it; so is the own time of the span that
    it was made for, up to the next attempt. The own time of a span that awaited a message's
    work is `queue` from when it was sent to when it was taken, and charged to that work.

    Args:
        segments: Critical path of the request.
    """
    if not (trace.retried or trace.queued):
        return tuple(segments)
    attempts: dict[str, Span] = {}  # by the ids of all that lies below them, too
    for attempt_id in reversed([one for one in trace.spans if one in trace.retried]):
        for span_id in with_all_below(attempt_id, trace.children, attempts):
            attempts[span_id] = trace.spans[attempt_id]
    waits = _waits(trace)
    charged: list[Segment] = []
    for segment in segments:
        attempt = attempts.get(segment.span_id)
        if attempt is not None:
            _join(charged, replace(segment, span_id=attempt.span_id, name=attempt.name))
        elif segment.stage is trace.stages[segment.span_id]:
            for part in _waited(segment, waits.get(segment.span_id, [])):
                _join(charged, part)
        else:
            charged.append(segment)
    return tuple(charged)


def _waits(trace: Trace) -> Mapping[str, list[_Wait]]:
    """The waits that no span fills, by the waiting span; the earliest last, none overlap."""
    origin_ns = trace.root.start_ns
    waits: dict[str, list[_Wait]] = defaultdict(list)
    for attempt_id, next_id in trace.retried.items():
        attempt, following = trace.spans[attempt_id], trace.spans[next_id]
        wait = _Wait(
            attempt.end_ns - origin_ns, following.start_ns - origin_ns, Stage.RETRY, attempt
        )
        waits[attempt.parent_id or ""].append(wait)
    for span_id, sent_ns in trace.queued.items():
        span = trace.spans[span_id]
        wait = _Wait(sent_ns - origin_ns, span.start_ns - origin_ns, Stage.QUEUE, span)
        waits[span.parent_id or ""].append(wait)
    return {
        span_id: _apart(of_span)
        for span_id, of_span in waits.items()
        if not works_itself(trace, span_id)
    }


def _apart(waits: Iterable[_Wait]) -> list[_Wait]:
    apart: list[_Wait] = []
    before_ns = 0
    for wait in sorted(waits, key=lambda wait: (*wait[:3], wait.charged.span_id)):
        since_ns = max(wait.start_ns, before_ns)
        if since_ns < wait.end_ns:
            apart.append(wait._replace(start_ns=since_ns))
            before_ns = wait.end_ns
    return apart[::-1]


def _waited(segment: Segment, waits: list[_Wait]) -> Iterator[Segment]:
    """Yield what of a span's own time was a wait, and what not.

    Args:
        segment: The next segment of the span, in order of time.
        waits: The earliest last; ended ones are taken out.
    """
    at_ns = segment.start_ns
    while waits and waits[-1].start_ns < segment.end_ns:
        wait = waits[-1]
        since_ns, until_ns = max(wait.start_ns, at_ns), min(wait.end_ns, segment.end_ns)
        if since_ns < until_ns:
            if at_ns < since_ns:
                yield replace(segment, start_ns=at_ns, end_ns=since_ns)
            yield Segment(
                start_ns=since_ns,
                end_ns=until_ns,
                stage=wait.stage,
                span_id=wait.charged.span_id,
                name=wait.charged.name,
            )
            at_ns = until_ns
        if wait.end_ns > segment.end_ns:
            break
        waits.pop()
    if at_ns < segment.end_ns:
        yield replace(segment, start_ns=at_ns)


def _join(charged: list[Segment], segment: Segment) -> None:
    """Add a segment, as one with the last if that is of the same span and stage."""
    last = charged[-1] if charged else None
    if last is not None and (last.span_id, last.stage) == (segment.span_id, segment.stage):
        charged[-1] = replace(last, end_ns=segment.end_ns)
    else:
        charged.append(segment)
