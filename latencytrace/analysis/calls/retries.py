"""Calls that were attempts, failed and were made again, and what they cost."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice, pairwise

from latencytrace.analysis.calls.waits import with_all_below, works_itself
from latencytrace.analysis.dialects.engine import Asked
from latencytrace.analysis.trace.error_types import (
    FIRST_CLIENT_ERROR,
    FIRST_SERVER_ERROR,
    http_code,
)
from latencytrace.model import AttributeValue, Interval, Span, SpanKind, Stage, StatusCode, Trace
from latencytrace.model import semconv as keys

MAX_SIDE_BY_SIDE = 64  # failed attempts of one span that wait to be made again

_WORTH_ANOTHER = frozenset({408, 409, 425, 429})  # what clients make again, of HTTP's 4xx
_ANSWERED = frozenset(  # what another attempt would get again, of gRPC
    {
        "INVALID_ARGUMENT", 3, "NOT_FOUND", 5, "ALREADY_EXISTS", 6, "PERMISSION_DENIED", 7,
        "FAILED_PRECONDITION", 9, "OUT_OF_RANGE", 11, "UNIMPLEMENTED", 12, "UNAUTHENTICATED", 16,
    }
)  # fmt: skip

ASKED = Asked(words=frozenset(one for one in _ANSWERED if isinstance(one, str)))

METHODS = (
    keys.HTTP_REQUEST_METHOD, keys.HTTP_METHOD_OLD, keys.RPC_METHOD, keys.RPC_SERVICE_OLD,
    keys.DB_OPERATION_NAME, keys.GEN_AI_OPERATION_NAME,
)  # fmt: skip
TARGETS = (
    keys.SERVER_ADDRESS, keys.NET_PEER_NAME_OLD, keys.URL_FULL, keys.HTTP_URL_OLD, keys.URL_PATH,
    keys.HTTP_TARGET_OLD, keys.RPC_METHOD, keys.RPC_SERVICE_OLD, keys.DB_SYSTEM_NAME,
    keys.DB_SYSTEM_OLD, keys.DB_COLLECTION_NAME, keys.GEN_AI_REQUEST_MODEL,
)  # fmt: skip

_Call = tuple[AttributeValue, ...]


def failed_attempts(spans: Mapping[str, Span], root: Span) -> dict[str, str]:
    """The calls that failed and were made again: of each the next attempt, by span ids.

    A failed call was made again by the next call of the same process, below the same span, to
    the same target (method, address, path, model), if that began when it had ended. Calls that
    overlap are hedges, and a failure that says so itself (a 404, say) is an answer. Where a
    client counts what it sends again (`http.request.resend_count`), its count decides.

    Args:
        spans: Spans of one request, by span id.
        root: The request's own span, which has no next attempt.
    """
    parents = {span.parent_id for span in spans.values() if is_failed_call(span)}
    parents.discard(root.parent_id)
    found: dict[str, str] = {}
    for together in _alike(spans.values(), parents, _process).values():
        found |= _counted(together)
    counted = set(found.values())
    for together in _alike(spans.values(), parents, _target).values():
        for one, following in pairwise(sorted(together, key=_order)):
            known = one.span_id in found or following.span_id in counted
            if not known and is_worth_another(one) and one.end_ns <= following.start_ns:
                found[one.span_id] = following.span_id
    return found


def _alike(
    spans: Iterable[Span], parents: Container[str | None], call_of: Callable[[Span], _Call | None]
) -> Mapping[_Call, list[Span]]:
    calls: dict[_Call, list[Span]] = defaultdict(list)
    for span in spans:
        if span.kind is SpanKind.CLIENT and span.parent_id in parents:
            call = call_of(span)
            if call is not None:
                calls[call].append(span)
    return calls


def _process(span: Span) -> _Call:
    return (span.parent_id, span.service, span.instance)


def _target(span: Span) -> _Call | None:
    """Return what a span calls, and its caller; None: unknown."""
    target = [span.attributes.get(key) for key in TARGETS]
    if all(part is None for part in target):
        return None
    methods = [span.attributes.get(key) for key in METHODS]
    return (*_process(span), span.scope, span.name, *target, *methods)


def have_failed_calls(spans: Iterable[Span]) -> bool:
    """Return whether one of the spans is a call that failed: in most traces none is."""
    return any(map(is_failed_call, spans))


def is_failed_call(span: Span) -> bool:
    return span.kind is SpanKind.CLIENT and span.parent_id is not None and _failed(span)


def _counted(calls: Iterable[Span]) -> Iterator[tuple[str, str]]:
    """Pairs of a failed attempt and the next one, as the client counted them."""
    waiting: dict[int, list[Span]] = defaultdict(list)  # failed and not made again yet, by count
    for call in sorted(calls, key=_order):
        count = resends(call)
        failed = waiting[count - 1]
        ended = [place for place, one in enumerate(failed) if one.end_ns <= call.start_ns]
        if count and ended:
            yield failed.pop(ended[-1]).span_id, call.span_id
        if _failed(call):
            waiting[count] = [*waiting[count][1 - MAX_SIDE_BY_SIDE :], call]


def with_retries(trace: Trace, messages: Mapping[str, str]) -> Trace:
    """A trace in which failed attempts, and all below them, are of stage `retry`.

    Each lasts until the next one, or until other work begins in between. The time that a
    message queued for its first attempt stays what it is.

    Args:
        messages: Failed attempts at the work of messages: of each the next one, by span ids.
    """
    resent = _beside_each_other(trace, messages)
    next_of = failed_attempts(trace.spans, trace.root) | resent
    if not next_of:
        return trace
    spans, stages = dict(trace.spans), dict(trace.stages)
    for attempt_id, next_id in next_of.items():
        attempt = trace.spans[attempt_id]
        if not works_itself(trace, attempt.parent_id):
            until_ns = _other_work_ns(trace, attempt, trace.spans[next_id].start_ns)
            spans[attempt_id] = replace(attempt, end_ns=until_ns)
    below: dict[str, Stage] = {}
    for attempt_id in next_of:
        for span_id in with_all_below(attempt_id, trace.children, below):
            below[span_id] = Stage.RETRY
    longer = {
        parent_id: tuple(spans[child.span_id] for child in trace.children[parent_id])
        for parent_id in {spans[attempt_id].parent_id for attempt_id in next_of}
        if parent_id is not None
    }
    return replace(
        trace,
        spans=spans,
        children={**trace.children, **longer},
        stages=stages | below,
        intervals=dict(_intervals(trace, below, resent)),
        retried=next_of,
    )


def _beside_each_other(trace: Trace, messages: Mapping[str, str]) -> dict[str, str]:
    """The attempts that one span of a trace awaited, like the next ones."""
    return {
        one: following
        for one, following in messages.items()
        if one in trace.spans
        and following in trace.spans
        and trace.root.span_id not in (one, following)
        and trace.spans[one].parent_id == trace.spans[following].parent_id
        and trace.spans[one].end_ns <= trace.spans[following].start_ns
    }


def _intervals(
    trace: Trace, below: Container[str], resent: Container[str]
) -> Iterator[tuple[str, tuple[Interval, ...]]]:
    """Yield the intervals that say more than that an attempt failed, by span id."""
    for span_id, packed in trace.intervals.items():
        if span_id not in below:
            yield span_id, packed
            continue
        queued = tuple([one for one in packed if one.stage is Stage.QUEUE])
        if queued and span_id in resent:
            yield span_id, queued


def _other_work_ns(trace: Trace, attempt: Span, until_ns: int) -> int:
    """Return when other work began after a failed attempt, at the latest when the next one did."""
    siblings = trace.children[attempt.parent_id or ""]
    first = bisect_left(siblings, attempt.end_ns, key=_start_ns)
    for sibling in islice(siblings, first, None):
        if sibling.start_ns >= until_ns:
            break
        is_pause = trace.stages[sibling.span_id] is Stage.RETRY
        if sibling.start_ns < sibling.end_ns and not is_pause:
            return sibling.start_ns
    return until_ns


def _start_ns(span: Span) -> int:
    return span.start_ns


def _order(span: Span) -> tuple[int, int, str]:
    return (span.start_ns, span.end_ns, span.span_id)


def resends(span: Span) -> int:
    """Return which attempt after the first a call is, as its client counts; 0: it does not say."""
    count = span.attributes.get(keys.HTTP_REQUEST_RESEND_COUNT)
    return count if type(count) is int and count > 0 else 0


def _failed(span: Span) -> bool:
    return (
        span.status is StatusCode.ERROR
        or keys.ERROR_TYPE in span.attributes
        or http_code(span) >= FIRST_CLIENT_ERROR
    )


def is_worth_another(span: Span) -> bool:
    """Return whether a call failed in a way that clients make it again for."""
    if not _failed(span):
        return False
    if FIRST_CLIENT_ERROR <= (code := http_code(span)) < FIRST_SERVER_ERROR:
        return code in _WORTH_ANOTHER
    grpc_code = span.attributes.get(keys.RPC_RESPONSE_STATUS_CODE)
    if grpc_code is None:
        grpc_code = span.attributes.get(keys.RPC_GRPC_STATUS_CODE_OLD)
    return grpc_code not in _ANSWERED
