"""Keeps one of the spans that came twice, and tells apart the spans that share an id.

Senders retry, and some reuse ids. Zipkin's tracers give both halves of a call one id: the
client's span and the server's (Brave by default, Envoy).
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from latencytrace.model import Repair, RepairKind, Span, SpanKind

_CALLERS: Final = (SpanKind.CLIENT, SpanKind.PRODUCER)  # their half is above the other
_ANSWERING: Final = (SpanKind.SERVER, SpanKind.CONSUMER)

_Key = tuple[str, str, SpanKind]


def without_duplicates(spans: Iterable[Span]) -> tuple[dict[str, Span], list[Repair]]:
    """One span for each span id, the same whatever the order of arrival.

    Returns:
        The spans by id, in the order of ids: of differing copies the one that lasts longest,
        as a store tells them. Only differing copies are a repair; a span sent twice is none.
        Spans of different services or kinds are no copies: all but the first get an id of
        their own, a server's below its client.
    """
    kept: dict[_Key, Span] = {}
    repairs: dict[_Key, Repair] = {}
    for span in spans:
        key = span.span_id, span.service, span.kind
        other = kept.setdefault(key, span)
        if other is span or other == span:
            continue
        kept[key] = max(other, span, key=rank)
        repairs[key] = Repair(
            kind=RepairKind.DUPLICATE,
            span_id=span.span_id,
            detail="spans of different content share this id; the longest is kept",
        )
    found = [kept[key] for key in sorted(kept)]
    sharing = _sharing(found)
    if sharing:
        found = _apart(found, sharing)
    by_id = {span.span_id: span for span in found}
    return dict(sorted(by_id.items())), [repairs[key] for key in sorted(repairs)]


def rank(span: Span) -> tuple[int, int, str, str]:
    """Return the place of a span among differing copies of it: the last one stands."""
    return (span.end_ns - span.start_ns, -span.start_ns, span.name, repr(span))


def _sharing(spans: Iterable[Span]) -> Mapping[str, Sequence[Span]]:
    """The spans of each id that several have, callers first."""
    by_id: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_id[span.span_id].append(span)
    return {span_id: sorted(ones, key=_depth) for span_id, ones in by_id.items() if len(ones) > 1}


def _depth(span: Span) -> tuple[int, str, str]:
    """Return how deep a span lies among those with its id: a caller, then the server."""
    return (span.kind in _ANSWERING) - (span.kind in _CALLERS), span.service, span.kind


def _apart(spans: Sequence[Span], sharing: Mapping[str, Sequence[Span]]) -> list[Span]:
    """The spans with an id each, and below those of their own service."""
    taken = {span.span_id for span in spans}
    ids: dict[_Key, str] = {}  # of the spans that get another
    below: dict[tuple[str, str], str] = {}  # by shared id and service: the innermost one's own
    for span_id, ones in sharing.items():
        for place, one in enumerate(ones):
            own = _free_id(span_id, taken) if place else span_id
            taken.add(own)
            ids[one.span_id, one.service, one.kind] = own
            below[span_id, one.service] = own
    return [_with_own_id(span, ids, below, sharing) for span in spans]


def _with_own_id(
    span: Span,
    ids: Mapping[_Key, str],
    below: Mapping[tuple[str, str], str],
    sharing: Mapping[str, Sequence[Span]],
) -> Span:
    """A span with its own id and the one of the span above it."""
    own = ids.get((span.span_id, span.service, span.kind), span.span_id)
    parent_id = span.parent_id
    if own != span.span_id and _is_half_of(span, sharing[span.span_id][0]):
        parent_id = span.span_id
    elif parent_id is not None and parent_id in sharing and parent_id != span.span_id:
        innermost = sharing[parent_id][-1].service
        parent_id = below.get((parent_id, span.service), below[parent_id, innermost])
    if (own, parent_id) == (span.span_id, span.parent_id):
        return span
    return replace(span, span_id=own, parent_id=parent_id)


def _is_half_of(span: Span, caller: Span) -> bool:
    """Return whether a span is the other half of a call, as Zipkin's tracers tell it."""
    return caller.kind in _CALLERS and span.parent_id in {caller.parent_id, caller.span_id}


def _free_id(span_id: str, taken: Container[str]) -> str:
    found = span_id
    while found in taken:
        found = blake2b(found.encode(), digest_size=8).hexdigest()
    return found
