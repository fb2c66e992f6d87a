"""The time of a request's first token, and the speed of the others."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from latencytrace.analysis.tokens.counts import (
    BATCH_SIZE,
    CACHED,
    FINISH_REASON,
    INPUT,
    MODEL,
    OUTPUT,
    SEQUENCES,
    Said,
    callers_first_token,
    count,
    engines_first_token,
    first_body,
    first_token,
    reported_first_token,
    tells,
    value,
)
from latencytrace.analysis.tokens.gaps import times_of
from latencytrace.analysis.trace.asgi_messages import LEAST_STREAMED, is_piece
from latencytrace.analysis.trace.is_request import is_entry
from latencytrace.analysis.trace.known_engines import engine_of, generation_of, have_engines
from latencytrace.model import AttributeValue, FirstTokenOf, Span, Stage, Trace, semconv

_GENERATING = frozenset({Stage.PREFILL, Stage.DECODE, Stage.REMOTE_MODEL})


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLatency:
    """Token times and counts of one request; None: unknown."""

    model: str | None
    model_call: Span | None  # the span that reported the model
    time_to_first_token_ns: int | None
    time_to_first_token_of: FirstTokenOf | None
    model_time_to_first_token_ns: int | None
    time_per_output_token_ns: int | None
    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None
    batch_size: int | None


def token_latency(trace: Trace) -> TokenLatency:
    """Read token times and counts off a request's model calls.

    The model calls are the spans with output tokens, or, where there are none, those
    with input tokens. The part of a disaggregated call that only prefills is none. Of several
    inside each other the outer one repeats the counts of the inner ones, adds them up, or tells
    a part; what it does not tell, those inside it do.

    Returns:
        Time to first token: when it left for the caller, as the request's own span says, or
        the spans of the messages that it sent; of an answer that was not streamed, the
        model's, which is kept next to the caller's: what an engine says, counted from
        its span's start; else the end of the first prefill to end; without a prefill,
        what any span says. Time per output token: of a streamed answer the time from
        the first packet to the last that left, over the tokens that left after the
        first; else the time that engines say they decoded, else the duration of the
        decode spans, else the decoding that engines tell inside their spans, over the
        tokens that each of their sequences got after its first; what of it ran on once
        no caller waited is part of it. A first token that came after the request's end is none.
        Tokens: of each call the larger of what it tells and what those inside it add up to;
        then the sum over the outermost. Model and finish reason: of the outermost calls that
        tell them, else of the spans inside calls that do, from the one that ended last; without
        model calls, of any span. Batch size: of the outermost calls.
    """
    reporters = [span for span in trace.spans.values() if tells(span)]
    prefills = _only_prefilling(trace)
    calls = _calls(trace, OUTPUT, reporters, prefills) or _calls(trace, INPUT, reporters, prefills)
    made = _Made.of(trace, reporters, prefills)
    model_call = _last(made.reporting(MODEL) if calls else reporters, MODEL)
    model = None if model_call is None else value(model_call, MODEL)
    finish_reason = _of_last(made.reporting(FINISH_REASON) if calls else reporters, FINISH_REASON)
    output_tokens = made.total(OUTPUT)
    batch_size = _of_last(calls or reporters, BATCH_SIZE)
    if batch_size is None and have_engines(trace.spans.values()):
        batch_size = _of_last(reporters, BATCH_SIZE)
    first_of, first_ns, models_ns = _first_tokens(trace, reporters, prefills)
    return TokenLatency(
        model=None if model is None else str(model),
        model_call=model_call,
        time_to_first_token_ns=first_ns,
        time_to_first_token_of=first_of,
        model_time_to_first_token_ns=models_ns,
        time_per_output_token_ns=(
            _per_left_token(trace, output_tokens)
            or _per_engines_token(calls)
            or _per_token(trace)
            or _per_reported_token(trace, calls)
            or _per_event(trace, output_tokens)
            or None  # no time at all, as no stream takes
        ),
        input_tokens=made.total(INPUT),
        cached_input_tokens=made.total(CACHED),
        output_tokens=output_tokens,
        finish_reason=None if finish_reason is None else str(finish_reason),
        batch_size=batch_size if isinstance(batch_size, int) else None,
    )


@dataclass(frozen=True, slots=True)
class _Made:
    """The model calls of a request, those inside each other too."""

    trace: Trace
    calls: frozenset[str]  # by span id

    @classmethod
    def of(cls, trace: Trace, reporters: Iterable[Span], but: Collection[str]) -> "_Made":
        """Find them: all that tell output tokens, or else input tokens."""
        for said in (OUTPUT, INPUT):
            calls = frozenset(
                span.span_id
                for span in reporters
                if span.span_id not in but and count(span, said) is not None
            )
            if calls:
                return cls(trace, calls)
        return cls(trace, frozenset())

    def total(self, said: Said) -> int | None:
        """Of each the larger of what it tells and of what those inside it do, added up."""
        inside: Counter[str] = Counter()
        reported: set[str] = set()  # the spans inside which something is
        for span, above in reversed(list(self._tree())) if self.calls else ():
            own = count(span, said) if span.span_id in self.calls else None
            if own is None and span.span_id not in reported:
                continue
            inside[above] += max(own or 0, inside[span.span_id])
            reported.add(above)
        return inside[_OUTSIDE] if _OUTSIDE in reported else None

    def reporting(self, said: Said) -> list[Span]:
        """The outermost of them that tell something, else the outermost spans inside them."""
        found: list[Span] = []
        inside: list[Span] = []
        done = {_OUTSIDE: (False, False, False)}  # within a call; one that reports; any span so
        for span, above in self._tree():
            is_within, has_reported, any_reported = done[above]
            tells_it = value(span, said) is not None
            is_call = span.span_id in self.calls
            if tells_it and is_call and not has_reported:
                found.append(self.trace.unclipped[span.span_id])
            elif tells_it and is_within and not any_reported:
                inside.append(self.trace.unclipped[span.span_id])
            done[span.span_id] = (
                is_within or is_call,
                has_reported or (tells_it and is_call),
                any_reported or (tells_it and is_within),
            )
        return found or inside

    def _tree(self) -> Iterator[tuple[Span, str]]:
        """Yield each span of the request after the one above it, whose id is beside it."""
        pending = [(self.trace.root, _OUTSIDE)]
        while pending:
            span, above = pending.pop()
            yield span, above
            pending += [(one, span.span_id) for one in self.trace.children.get(span.span_id, ())]


_OUTSIDE = ""  # no span's id


def _only_prefilling(trace: Trace) -> frozenset[str]:
    """The spans of those parts of calls that only prefill; their tokens go to no caller."""
    found: set[str] = set()
    if not have_engines(trace.spans.values()):
        return frozenset()
    for span_id, span in trace.spans.items():
        engine = engine_of(span)
        if span.parent_id in found or (engine is not None and engine.only_prefills(span)):
            found.add(span_id)
    return frozenset(found)


def _calls(
    trace: Trace, said: Said, reporters: Iterable[Span], but: Collection[str]
) -> tuple[Span, ...]:
    """The spans that say this and lie below no other such span, as they were sent."""
    if all(count(span, said) is None for span in reporters):
        return ()
    found = []
    pending = [trace.root]
    while pending:
        span = pending.pop()
        if span.span_id not in but and count(span, said) is not None:
            found.append(trace.unclipped[span.span_id])
        else:
            pending.extend(trace.children.get(span.span_id, ()))
    return tuple(found)


def _of_last(spans: Iterable[Span], said: Said) -> AttributeValue:
    """Return what is said by the last span to end that says it."""
    last = _last(spans, said)
    return None if last is None else value(last, said)


def _last(spans: Iterable[Span], said: Said) -> Span | None:
    """The last of these spans to end, of spans that say this."""
    reported = (span for span in spans if value(span, said) is not None)
    return max(reported, key=lambda span: (span.end_ns, span.start_ns, span.span_id), default=None)


def _first_tokens(
    trace: Trace, reporters: Iterable[Span], prefills: Collection[str]
) -> tuple[FirstTokenOf | None, int | None, int | None]:
    """Return the source of the request's time to first token, that time, and the model's own."""
    models_ns = _models_first_token(trace, reporters, prefills)
    root = trace.unclipped[trace.root.span_id]
    left_ns = callers_first_token(root)
    if left_ns is None and (models_ns is not None or _generates(trace)):
        left_ns = first_body(root)
        if left_ns is None:
            left_ns = _first_piece(trace, root)
    if left_ns is not None:
        return FirstTokenOf.CALLER, left_ns - root.start_ns, models_ns
    return None if models_ns is None else FirstTokenOf.MODEL, models_ns, models_ns


def _first_piece(trace: Trace, root: Span) -> int | None:
    """Return when contrib's middleware saw the first piece of a streamed answer sent."""
    sent_ns = []
    pending = list(trace.children.get(root.span_id, ()))
    while pending:
        span = pending.pop()
        if is_piece(span):
            sent_ns.append(trace.unclipped[span.span_id].end_ns)
        if not is_entry(span):  # what is sent below it is another's answer
            pending.extend(trace.children.get(span.span_id, ()))
    first_ns = min(sent_ns, default=0)
    is_streamed = len(sent_ns) >= LEAST_STREAMED and root.start_ns <= first_ns <= root.end_ns
    return first_ns if is_streamed else None


def _generates(trace: Trace) -> bool:
    """Return whether a model made an answer in it, so that what was streamed may well be that."""
    return not _GENERATING.isdisjoint(trace.stages.values())


def _models_first_token(
    trace: Trace, reporters: Iterable[Span], prefills: Collection[str]
) -> int | None:
    root_ns, root_id = trace.root.start_ns, trace.root.span_id
    spans = [trace.unclipped[one.span_id] for one in reporters if one.span_id not in prefills]
    first_ns = _earliest(map(engines_first_token, spans))
    if first_ns is None:
        first_ns = _earliest(_prefilled(trace))
    if first_ns is None:
        # What a request's own span says of its first chunk is its caller's.
        first_ns = _earliest(
            reported_first_token(span) if span.span_id == root_id else first_token(span)
            for span in spans
        )
    if first_ns is None or first_ns > trace.root.end_ns:  # the caller had gone by then
        return None
    return max(first_ns, root_ns) - root_ns


def _earliest(times_ns: Iterable[int | None]) -> int | None:
    return min((time_ns for time_ns in times_ns if time_ns is not None), default=None)


def _prefilled(trace: Trace) -> Iterator[int]:
    """Yield when each prefill ended; of one cut short that is unknown."""
    for span_id, span in trace.unclipped.items():
        if trace.stages[span_id] is Stage.PREFILL:
            yield span.end_ns
    for span_id, intervals in trace.intervals.items():
        end_ns = trace.spans[span_id].end_ns
        is_cut = trace.unclipped[span_id].end_ns > end_ns
        for interval in intervals:
            if interval.stage is Stage.PREFILL and not (is_cut and interval.end_ns >= end_ns):
                yield interval.end_ns


def _per_left_token(trace: Trace, reported: int | None) -> int | None:
    """The time from the first token that left to the last, over those after the first packet."""
    root = trace.unclipped[trace.root.span_id]
    tokens = _number(root, semconv.STREAMED_TOKENS)
    if tokens is None:
        # Where each event carries one token, they are as many.
        events = _number(root, semconv.STREAMED_EVENTS)
        if events is not None and reported is not None and reported <= events + _choices(root):
            tokens = events
    return round(_left_ns(root) / tokens) if tokens else None


def _per_event(trace: Trace, reported: int | None) -> int | None:
    """Where what an event carries is unknown: an equal part of all tokens, or one."""
    root = trace.unclipped[trace.root.span_id]
    events = _number(root, semconv.STREAMED_EVENTS)
    if events is None:
        return None
    all_events = events + _choices(root)
    tokens = max(events, (reported or 0) * events // all_events)
    return round(_left_ns(root) / tokens)


def _left_ns(root: Span) -> int:
    """Return how long tokens left for the caller, of each of several parallel answers."""
    times = times_of(root)
    return 0 if times is None else sum(times.lengths_ns) * _choices(root)


def _choices(root: Span) -> int:
    return _number(root, semconv.STREAMED_CHOICES) or 1


def _number(span: Span, key: str) -> int | None:
    found = span.attributes.get(key)
    return found if type(found) is int and found > 0 else None


def _per_engines_token(calls: Iterable[Span]) -> int | None:
    """The time that engines say they decoded over the tokens after the first."""
    decoded_ns = following = 0
    for span in calls:
        decode_ns = generation_of(span).decode_ns
        if decode_ns is not None:
            decoded_ns += decode_ns
            following += _following_tokens(span)
    return round(decoded_ns / following) if following else None


def _per_token(trace: Trace) -> int | None:
    """Decode time over the tokens after the first; None where no decode span tells its tokens."""
    decodes: list[Span] = []
    reporters: dict[str, Span] = {}  # one span may tell the tokens of several decode spans
    for span_id, span in trace.spans.items():
        if trace.stages[span_id] is Stage.DECODE:
            parent = trace.spans.get(span.parent_id or "")
            reporter = span if parent is None or count(span, OUTPUT) is not None else parent
            if count(reporter, OUTPUT):
                reporters[reporter.span_id] = reporter
                decodes.append(trace.unclipped[span_id])  # its tokens are those of all of it
    following = sum(_following_tokens(span) for span in reporters.values())
    decoded_ns = sum(span.end_ns - span.start_ns for span in decodes)
    return round(decoded_ns / following) if following else None


def _per_reported_token(trace: Trace, calls: Iterable[Span]) -> int | None:
    """The decoding that engines tell inside spans over the tokens after the first."""
    following = sum(map(_following_tokens, calls))
    decoded_ns = sum(
        interval.end_ns - interval.start_ns
        for span_id, intervals in trace.intervals.items()
        if (engine := engine_of(span := trace.spans[span_id])) is not None
        and engine.may_tell_times(span)
        for interval in intervals
        if interval.stage is Stage.DECODE
    )
    return round(decoded_ns / following) if following and decoded_ns else None


def _following_tokens(span: Span) -> int:
    """Tokens after the first one, of each sequence: those of a batch are made together."""
    tokens = count(span, OUTPUT) or 0
    sequences = count(span, SEQUENCES) or 1
    return max(tokens // sequences - 1, 0)
