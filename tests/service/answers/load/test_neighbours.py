"""What others cost the tail, read from a store."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import cast

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.tail.groups import Split
from latencytrace.analysis.tail.neighbours import Step
from latencytrace.model import Link, Request, Span, SpanKind, semconv
from latencytrace.model.cohorts.request_columns import RequestColumns
from latencytrace.service.answers.load.neighbours import _parts, neighbours_of
from latencytrace.service.store import Store
from tests.support.builders.spans.otlp_messages import one_span
from tests.support.simulation.tails import durations_of

MS = 1_000_000
START_NS = 1_790_000_000 * 10**9
LINKED = 60  # spans that others link to
EACH = 4  # requests that link to one of them


class _Store:
    """Spans and their requests; asking who links to a span is refused."""

    def __init__(self, *, shared: bool) -> None:
        self.spans: dict[str, list[Span]] = defaultdict(list)
        for number in range(LINKED):
            self._add(number, shared=shared)
        found = [
            one
            for spans in self.spans.values()
            if spans[0].links
            for one in requests_of(spans, {})
        ]
        self.requests = [replace(one, batch_size=EACH) for one in found]

    def _add(self, number: int, *, shared: bool) -> None:
        trace_id, span_id = f"{number + 1:032x}", f"{number + 1:016x}"
        start_ns = START_NS + number * 1000 * MS
        places = [(f"{1000 + number * EACH + at:032x}", f"{at + 1:016x}") for at in range(EACH)]
        wall_ns = (20 + number % 7) * MS
        step = one_span(
            trace_id,
            span_id,
            name="step",
            kind=SpanKind.PRODUCER,
            start_ns=start_ns,
            end_ns=start_ns + wall_ns,
        )
        marks = {semconv.SHARED: True} if shared else {}
        members = tuple(Link(trace_id=one, span_id=other, attributes={}) for one, other in places)
        self.spans[trace_id].append(
            replace(step, attributes=marks, links=members if shared else ())
        )
        for at, (member, root_id) in enumerate(places):
            long_ns = wall_ns + (200 * MS if number % 20 == 0 else at * MS)
            root = one_span(
                member, root_id, name="process", start_ns=start_ns, end_ns=start_ns + long_ns
            )
            link = Link(trace_id=trace_id, span_id=span_id, attributes={})
            self.spans[member].append(replace(root, links=(link,)))

    def spans_of(self, trace_ids: Collection[str]) -> Mapping[str, tuple[Span, ...]]:
        return {one: tuple(self.spans[one]) for one in trace_ids if one in self.spans}

    def requests_of(self, trace_ids: Collection[str]) -> list[Request]:
        return [one for one in self.requests if one.trace_id in set(trace_ids)]

    def spans_at(self, places: Collection[tuple[str, str]]) -> tuple[Span, ...]:
        wanted = set(places)
        return tuple(
            one
            for spans in self.spans.values()
            for one in spans
            if (one.trace_id, one.span_id) in wanted
        )


def found_in(store: _Store) -> int | None:
    """How many steps were found; None: nothing is told."""
    columns = RequestColumns.of(store.requests, attributes=True)
    split = Split.of(durations_of(columns), 0.95)
    found = neighbours_of(cast("Store", store), columns, split)
    return None if found is None else found.steps


def test_only_links_to_shared_steps_are_counted() -> None:
    assert (found_in(_Store(shared=True)) or 0) > 0
    assert found_in(_Store(shared=False)) is None


def test_parts_of_a_wait_are_no_longer_than_it() -> None:
    steps = [Step(kind="decode", wall_ns=40 * MS, work=1, members=[]) for _ in range(50)]

    parts = list(_parts("a" * 32, 100 * MS, steps))

    assert abs(sum(one.held_up_ns for one in parts) - 100 * MS) < len(parts)
    (whole,) = _parts("a" * 32, 100 * MS, steps[:1])
    assert whole.held_up_ns == 40 * MS
