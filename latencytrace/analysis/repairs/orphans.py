"""Finds a place for spans whose parent never arrived."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from latencytrace.analysis.is_request import is_entry, is_request
from latencytrace.model import Repair, RepairKind, Span


def adopt_orphans(
    spans: Mapping[str, Span], cut: Collection[str]
) -> tuple[dict[str, Span], list[Repair]]:
    """Hang every orphan below the request that it most plausibly belongs to.

    That is a request of its own service (a server or consumer span's: of another
    service, for that is who called it), else any: the last to start of those that ran
    when the orphan started, else the last to start before it, else the first.

    Where the trace has no root, its caller is not traced: then orphaned server and
    consumer spans are requests of their own, which is no repair. Without any request
    the other orphans wait for theirs.

    Args:
        spans: By span id.
        cut: Spans that must not keep their parent (see `repairs.cycles`).

    Returns:
        Spans by id, the parent of each among them or None. They form trees: what has
        no way to a request is left out.
    """
    roots, orphans = _parentless(spans, cut)
    entries = [orphan for orphan in orphans if is_entry(orphan)]
    others = [orphan for orphan in orphans if not is_entry(orphan)]
    if not any(is_request(root, None) for root in roots):
        roots, entries = [*roots, *(replace(entry, parent_id=None) for entry in entries)], []
    children = defaultdict(list)
    for span in spans.values():
        if span.parent_id is not None and span.span_id not in cut:
            children[span.parent_id].append(span)
    adopted: dict[str, Span] = {}
    repairs = []
    requests = _settle(roots, children, adopted)
    if not requests:
        return adopted, []
    for homeless in (entries, others):
        hung = []
        for orphan, request in _places(homeless, requests):
            hung.append(replace(orphan, parent_id=request.span_id))
            repairs.append(
                Repair(
                    kind=RepairKind.ORPHAN,
                    span_id=orphan.span_id,
                    detail=f"its parent {orphan.parent_id} is not there; "
                    f"hung below {request.name}",
                )
            )
        requests += _settle(hung, children, adopted)
    return adopted, repairs


def _parentless(spans: Mapping[str, Span], cut: Collection[str]) -> tuple[list[Span], list[Span]]:
    """Roots, and orphans."""
    roots = [span for span in spans.values() if span.parent_id is None]
    orphans = [
        span
        for span in spans.values()
        if span.parent_id is not None and (span.parent_id not in spans or span.span_id in cut)
    ]
    return roots, orphans


def _settle(
    heads: Iterable[Span], children: Mapping[str, list[Span]], adopted: dict[str, Span]
) -> list[Span]:
    """Note spans and all below them as adopted; return the roots and requests among them."""
    requests = []
    pending = list(heads)
    while pending:
        span = pending.pop()
        adopted[span.span_id] = span
        if span.parent_id is None or is_request(span, adopted[span.parent_id]):
            requests.append(span)
        pending.extend(children.get(span.span_id, ()))
    return requests


def _places(orphans: Iterable[Span], requests: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
    """Each orphan with its request."""
    in_order = sorted(requests, key=_order)
    services = {request.service for request in in_order}
    orphans_of: dict[tuple[str, bool], list[Span]] = defaultdict(list)
    for orphan in sorted(orphans, key=_order):
        orphans_of[orphan.service, is_entry(orphan)].append(orphan)
    for (service, called), together in orphans_of.items():
        candidates = in_order
        if called and services != {service}:
            candidates = [request for request in in_order if request.service != service]
        elif service in services:
            candidates = [request for request in in_order if request.service == service]
        yield from _swept(together, candidates)


def _swept(orphans: list[Span], requests: list[Span]) -> Iterator[tuple[Span, Span]]:
    """Each orphan with its request, both in order of start."""
    running: list[Span] = []
    following = 0
    for orphan in orphans:
        while following < len(requests) and requests[following].start_ns <= orphan.start_ns:
            running.append(requests[following])
            following += 1
        while running and running[-1].end_ns <= orphan.start_ns:
            running.pop()
        yield orphan, running[-1] if running else requests[max(following - 1, 0)]


def _order(span: Span) -> tuple[int, str]:
    return (span.start_ns, span.span_id)
