"""Which calls were attempts that failed and were made again, and what they cost."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from latencytrace.model import AttributeValue, Segment, Span, SpanKind, Stage, StatusCode, Trace
from latencytrace.model import semconv as keys

_FIRST_CLIENT_ERROR = 400
_FIRST_SERVER_ERROR = 500
_WORTH_ANOTHER = frozenset({408, 409, 425, 429})  # what clients make again, of HTTP's 4xx
_ANSWERED = frozenset(  # what another attempt would be told again, of gRPC
    {
        "INVALID_ARGUMENT", 3, "NOT_FOUND", 5, "ALREADY_EXISTS", 6, "PERMISSION_DENIED", 7,
        "FAILED_PRECONDITION", 9, "OUT_OF_RANGE", 11, "UNIMPLEMENTED", 12, "UNAUTHENTICATED", 16,
    }
)  # fmt: skip

_METHODS = (
    keys.HTTP_REQUEST_METHOD, keys.HTTP_METHOD_OLD, keys.RPC_METHOD, keys.RPC_SERVICE_OLD,
    keys.DB_OPERATION_NAME, keys.GEN_AI_OPERATION_NAME,
)  # fmt: skip
_TARGETS = (
    keys.SERVER_ADDRESS, keys.NET_PEER_NAME_OLD, keys.URL_FULL, keys.HTTP_URL_OLD, keys.URL_PATH,
    keys.HTTP_TARGET_OLD, keys.RPC_METHOD, keys.RPC_SERVICE_OLD, keys.DB_SYSTEM_NAME,
    keys.DB_SYSTEM_OLD, keys.DB_COLLECTION_NAME, keys.GEN_AI_REQUEST_MODEL,
)  # fmt: skip

_WORK = frozenset(  # what a span may have done itself between two calls
    {
        Stage.PREPROCESS, Stage.TOKENIZE, Stage.TRANSFER, Stage.PREFILL, Stage.DECODE,
        Stage.FORWARD, Stage.DETOKENIZE, Stage.POSTPROCESS, Stage.RESPOND, Stage.LOAD,
    }
)  # fmt: skip

_Call = tuple[AttributeValue, ...]
_Wait = tuple[int, int, Span]  # start, end, and the attempt before it


def failed_attempts(spans: Mapping[str, Span], root: Span) -> dict[str, str]:
    """The calls that failed and were made again: of each the next attempt, by span ids.

    A failed call was made again by the next call of the same process, below the same span, to
    the same target (method, address, path, model), if that began when it had ended. Calls that
    overlap are hedges, and a failure that says so itself (a 404, say) is an answer. Where a
    client counts what it sends again (`http.request.resend_count`), its count decides.

    Args:
        spans: Of one request, by span id.
        root: Its own span, which has no next attempt.
    """
    parents = {span.parent_id for span in spans.values() if _is_failed_call(span)}
    parents.discard(root.parent_id)
    calls: dict[_Call, list[Span]] = defaultdict(list)
    resent: dict[_Call, list[Span]] = defaultdict(list)
    for span in spans.values():
        if span.kind is SpanKind.CLIENT and span.parent_id in parents:
            process = (span.parent_id, span.service, span.instance)
            resent[process].append(span)
            target = tuple(span.attributes.get(key) for key in _TARGETS)
            if any(part is not None for part in target):
                methods = (span.attributes.get(key) for key in _METHODS)
                calls[(*process, span.scope, span.name, *target, *methods)].append(span)
    found: dict[str, str] = {}
    for together in resent.values():
        found |= _counted(together)
    told = set(found.values())
    for alike in calls.values():
        for one, following in pairwise(sorted(alike, key=_order)):
            if one.span_id not in found and following.span_id not in told:
                if _is_worth_another(one) and one.end_ns <= following.start_ns:
                    found[one.span_id] = following.span_id
    return found


def have_failed_calls(spans: Iterable[Span]) -> bool:
    """Whether one of the spans is a call that failed: in most traces none is."""
    return any(map(_is_failed_call, spans))


def _is_failed_call(span: Span) -> bool:
    return span.kind is SpanKind.CLIENT and span.parent_id is not None and _failed(span)


def _counted(calls: Iterable[Span]) -> Iterator[tuple[str, str]]:
    """Pairs of a failed attempt and the next one, as the client counted them."""
    waiting: list[Span] = []  # failed, and not made again yet
    for call in sorted(calls, key=_order):
        count = _resends(call)
        if count:
            before = [
                one
                for one in waiting
                if one.end_ns <= call.start_ns and _resends(one) == count - 1
            ]
            if before:
                last = max(before, key=lambda one: (one.start_ns, one.span_id))
                waiting.remove(last)
                yield last.span_id, call.span_id
        if _failed(call):
            waiting.append(call)


@dataclass(slots=True)
class Retried:
    """What failed attempts change in the tree of a request."""

    spans: dict[str, Span]  # the attempts, each as long as it held the next one up
    stages: dict[str, Stage]  # of them, and of all below them


def as_retries(
    next_of: Mapping[str, str],
    spans: Mapping[str, Span],
    children: Mapping[str, Sequence[Span]],
    stages: Mapping[str, Stage],
) -> Retried:
    """Let failed attempts last until the next one, or until other work begins in between.

    Args:
        next_of: The next attempt of each that failed (see `failed_attempts`).
        spans: Of one request, by span id, all clipped.
        children: By parent's span id, those of each in order of start.
        stages: By span id.
    """
    retried = Retried({}, {})
    for attempt_id, next_id in next_of.items():
        attempt = spans[attempt_id]
        until_ns = spans[next_id].start_ns
        if stages[attempt.parent_id or ""] in _WORK:
            until_ns = attempt.end_ns
        siblings = children[attempt.parent_id or ""]
        first = bisect_left(siblings, attempt.end_ns, key=_start_ns)
        for sibling in islice(siblings, first, None):
            if sibling.start_ns >= until_ns:
                break
            waits = stages[sibling.span_id] is Stage.RETRY
            if sibling.start_ns < sibling.end_ns and not waits and sibling is not attempt:
                until_ns = sibling.start_ns
        retried.spans[attempt_id] = replace(attempt, end_ns=until_ns)
        for span_id in _with_all_below(attempt_id, children, retried.stages):
            retried.stages[span_id] = Stage.RETRY
    return retried


def _start_ns(span: Span) -> int:
    return span.start_ns


def _with_all_below(
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
    it was made for, up to the next attempt.

    Args:
        trace: Of the request.
        segments: Its critical path.
    """
    if not trace.retried:
        return tuple(segments)
    attempts: dict[str, Span] = {}
    for attempt_id in reversed([one for one in trace.spans if one in trace.retried]):
        for span_id in _with_all_below(attempt_id, trace.children, attempts):
            attempts[span_id] = trace.spans[attempt_id]
    waits: dict[str, list[_Wait]] = defaultdict(list)
    for attempt_id, next_id in trace.retried.items():
        attempt = trace.spans[attempt_id]
        if trace.stages[attempt.parent_id or ""] in _WORK:
            continue
        wait = (attempt.end_ns, trace.spans[next_id].start_ns, attempt)
        waits[attempt.parent_id or ""].append(wait)
    for of_parent in waits.values():
        of_parent.sort(key=lambda wait: (wait[0], wait[1], wait[2].span_id))
    charged: list[Segment] = []
    for segment in segments:
        if (attempt := attempts.get(segment.span_id)) is not None:
            _join(charged, replace(segment, span_id=attempt.span_id, name=attempt.name))
        elif segment.stage is trace.stages[segment.span_id]:
            for part in _waited(segment, waits.get(segment.span_id, ()), trace.root.start_ns):
                _join(charged, part)
        else:
            charged.append(segment)
    return tuple(charged)


def _waited(segment: Segment, waits: Iterable[_Wait], origin_ns: int) -> Iterator[Segment]:
    """What of a span's own time was a wait for the next attempt, and what not."""
    at_ns = segment.start_ns
    for start_ns, end_ns, attempt in waits:
        since_ns, until_ns = max(start_ns - origin_ns, at_ns), min(end_ns - origin_ns, segment.end_ns)
        if since_ns >= until_ns:
            continue
        if at_ns < since_ns:
            yield replace(segment, start_ns=at_ns, end_ns=since_ns)
        yield Segment(
            start_ns=since_ns,
            end_ns=until_ns,
            stage=Stage.RETRY,
            span_id=attempt.span_id,
            name=attempt.name,
        )
        at_ns = until_ns
    if at_ns < segment.end_ns:
        yield replace(segment, start_ns=at_ns)


def _join(charged: list[Segment], segment: Segment) -> None:
    """Add a segment, as one with the last if that is of the same span and stage."""
    last = charged[-1] if charged else None
    if last is not None and (last.span_id, last.stage) == (segment.span_id, segment.stage):
        charged[-1] = replace(last, end_ns=segment.end_ns)
    else:
        charged.append(segment)


def _order(span: Span) -> tuple[int, int, str]:
    return (span.start_ns, span.end_ns, span.span_id)


def _resends(span: Span) -> int:
    count = span.attributes.get(keys.HTTP_REQUEST_RESEND_COUNT)
    return count if type(count) is int and count > 0 else 0


def _code(span: Span) -> int:
    code = span.attributes.get(keys.HTTP_RESPONSE_STATUS_CODE)
    if code is None:
        code = span.attributes.get(keys.HTTP_STATUS_CODE_OLD)
    return code if type(code) is int else 0


def _failed(span: Span) -> bool:
    return (
        span.status is StatusCode.ERROR
        or keys.ERROR_TYPE in span.attributes
        or _code(span) >= _FIRST_CLIENT_ERROR
    )


def _is_worth_another(span: Span) -> bool:
    """Whether a call failed in a way that clients make it again for."""
    if not _failed(span):
        return False
    if _FIRST_CLIENT_ERROR <= (code := _code(span)) < _FIRST_SERVER_ERROR:
        return code in _WORTH_ANOTHER
    told = span.attributes.get(keys.RPC_RESPONSE_STATUS_CODE)
    if told is None:
        told = span.attributes.get(keys.RPC_GRPC_STATUS_CODE_OLD)
    return told not in _ANSWERED
