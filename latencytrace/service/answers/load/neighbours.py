"""Cost of others' work in shared steps to the requests of a tail."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from latencytrace.analysis.tail.groups import Split
from latencytrace.analysis.tail.neighbours import (
    Labels,
    Member,
    Neighbours,
    Step,
    Wait,
    neighbours,
)
from latencytrace.analysis.trace.is_request import is_shared
from latencytrace.model import Request, ShareBasis, SharedStep
from latencytrace.model.cohorts.request_columns import RequestColumns
from latencytrace.service.answers.documents import document
from latencytrace.service.answers.steps import found_steps, held_up_by
from latencytrace.service.answers.tail_documents import NeighboursDocument
from latencytrace.service.answers.whatif import kept_tree
from latencytrace.service.store import Store

MOST_REQUESTS: Final = 80  # of the tail, and of the reference
MOST_STEPS: Final = 2_000  # whose members are read
MOST_NAMED: Final = 2_000  # of those served with them, whose labels are read

_Wanted = tuple[str, int, int]  # trace id, start and duration of a request
_Place = tuple[str, str]  # trace id, span id


@dataclass(frozen=True, slots=True, kw_only=True)
class _HeldUp:
    """How long a request waited for which steps."""

    request: Request
    waits: Mapping[str, tuple[int, Sequence[_Place]]]  # by its span: how long, and for which

    @property
    def steps(self) -> set[_Place]:
        """All of them."""
        return {place for _, places in self.waits.values() for place in places}


def neighbours_of(store: Store, columns: RequestColumns, split: Split) -> Neighbours | None:
    """Find what others cost the tail; None: nothing tells that any were served together."""
    if not (columns.batch_size.known & (columns.batch_size.value > 1)).any():
        return None
    tail = columns.duration_ns >= split.threshold_ns
    reference = (columns.duration_ns >= split.starts_ns[1]) & (
        columns.duration_ns < split.starts_ns[2]
    )
    groups = [
        _held_up(store, some_of(columns, np.flatnonzero(each), MOST_REQUESTS))
        for each in (tail, reference)
    ]
    places = {place for group in groups for one in group for place in one.steps}
    shared = [one for one in store.spans_at(sorted(places)) if is_shared(one)] if places else []
    some = shared[:: max(-(-len(shared) // MOST_STEPS), 1)]
    found = found_steps(store, some, look_up=False)
    by_place = {(one.span.trace_id, one.span.span_id): one for one in found}
    labels = _labels(store, groups[0], by_place)
    steps = {place: _step(one, labels) for place, one in by_place.items()}
    of_tail, usual = (_waits(group, steps) for group in groups)
    weight_of = {one.request.trace_id: one.request.weight for group in groups for one in group}
    return neighbours(of_tail, usual, weight_of)


def neighbours_document(found: Neighbours, excess_ns: float | None) -> NeighboursDocument:
    longer_ns = found.tail_mean_ns - found.reference_mean_ns
    return document(
        NeighboursDocument,
        found,
        excess_ns=round(found.tail_mean_ns) - round(found.reference_mean_ns),
        excess_share_ratio=longer_ns / excess_ns if excess_ns and excess_ns > 0 else None,
    )


def some_of(columns: RequestColumns, rows: np.ndarray, most: int) -> set[_Wanted]:
    """At most so many of these rows, evenly spread."""
    apart = max(-(-len(rows) // most), 1)
    return {
        (columns.trace_id_of(row), int(columns.start_ns[row]), int(columns.duration_ns[row]))
        for row in rows[::apart].tolist()
    }


def read_whole(store: Store, wanted: set[_Wanted]) -> list[Request]:
    """These requests, with their ledgers."""
    return [
        one
        for one in store.requests_of({trace_id for trace_id, _, _ in wanted})
        if key_of(one) in wanted
    ]


def key_of(request: Request) -> tuple[str, int, int]:
    """By what one that was read as columns is found again."""
    return request.trace_id, request.start_ns, request.duration_ns


def _held_up(store: Store, wanted: set[_Wanted]) -> list[_HeldUp]:
    """The requests whose spans are kept, with the steps that they waited for."""
    spans = store.spans_of({trace_id for trace_id, _, _ in wanted})
    found = []
    for request in read_whole(store, wanted):
        tree = kept_tree(spans, request)
        if tree is None:
            continue
        waits: dict[str, tuple[int, list[_Place]]] = {}
        for link, span, held_up_ns in held_up_by(tree, request):
            _, places = waits.setdefault(span.span_id, (held_up_ns, []))
            places.append((link.trace_id, link.span_id))
        found.append(_HeldUp(request=request, waits=waits))
    return found


def _labels(
    store: Store, tail: Iterable[_HeldUp], steps: Mapping[_Place, SharedStep]
) -> Mapping[str, Labels]:
    """Labels of those served with the tail, by trace; of very many some."""
    served = {
        member.trace_id
        for one in tail
        for place in one.steps
        if place in steps
        for member in steps[place].members
    }
    some = sorted(served)[:MOST_NAMED]
    return {one.trace_id: _named(one) for one in store.requests_of(some) if one.outermost}


def _named(request: Request) -> Labels:
    known = (
        ("route", request.route),
        ("model", request.model),
        ("version", request.version),
        ("service", request.service),
    )
    return (*((key, value) for key, value in known if value is not None), *request.attributes)


def _step(found: SharedStep, labels: Mapping[str, Labels]) -> Step:
    by_tokens = found.basis is ShareBasis.TOKENS
    span = found.span
    return Step(
        kind=f"{span.service} {found.stage} {span.name} {found.basis}",
        wall_ns=found.wall_ns,
        work=(found.tokens or 0) if by_tokens else found.size,
        members=[
            Member(
                trace_id=one.trace_id,
                work=(one.tokens or 0) if by_tokens else 1,
                labels=labels.get(one.trace_id, ()),
            )
            for one in found.members
        ],
    )


def _waits(group: Sequence[_HeldUp], steps: Mapping[_Place, Step]) -> Mapping[str, Sequence[Wait]]:
    return {
        one.request.trace_id: [
            wait
            for held_up_ns, places in one.waits.values()
            for wait in _parts(
                one.request.trace_id, held_up_ns, [steps[at] for at in places if at in steps]
            )
        ]
        for one in group
    }


def _parts(trace_id: str, held_up_ns: int, steps: Sequence[Step]) -> Iterator[Wait]:
    """The wait of one span for its steps; together no longer than the request waited for it."""
    parts = [min(held_up_ns, step.wall_ns) for step in steps]
    scale = min(1.0, held_up_ns / max(sum(parts), 1))
    for step, part_ns in zip(steps, parts, strict=True):
        yield Wait(trace_id=trace_id, step=step, held_up_ns=round(part_ns * scale))
