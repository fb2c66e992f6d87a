"""Spans that share an id: memory and the store agree on the one that stands.

Else one has a root and the other none, and a trace is found without a ledger later.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Final

import numpy as np
import pytest

from latencytrace.model import Attributes, Request, Span, SpanKind, semconv
from latencytrace.service.ledgers.attribution import Attributed, Attribution
from latencytrace.service.ledgers.span_parts import Parts
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp.span_block import SpanBlock
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.spans.otlp_messages import START_NS, columns, one_span, otlp

TRACES: Final = 40
TIMES_NS: Final = (START_NS, 0, 2**64 - 1, START_NS - 30 * 86_400 * 10**9, START_NS + 10**15)
ROOT, SHARED, OTHER, NOWHERE = "a" * 16, "b" * 16, "c" * 16, "d" * 16


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChdbStore]:
    opened = ChdbStore.open(tmp_path_factory.mktemp("copies") / "store")
    yield opened
    opened.close()


def odd_trace(chance: Random) -> Sequence[Span]:
    """A few spans, most of which share an id with another."""
    trace_id = f"{chance.getrandbits(128):032x}"
    return [odd_span(chance, trace_id) for _ in range(chance.randint(2, 5))]


def odd_span(chance: Random, trace_id: str) -> Span:
    start_ns, end_ns = chance.choice(TIMES_NS), chance.choice(TIMES_NS)
    span_id = chance.choice((ROOT, ROOT, SHARED, OTHER))
    choices: Sequence[Attributes] = ({}, {}, {semconv.SHARED: True}, {"a": 1})
    return one_span(
        trace_id,
        span_id,
        parent_id=chance.choice((None, None, ROOT, NOWHERE, span_id)),
        name=chance.choice(("GET /a", "z")),
        kind=chance.choice((SpanKind.SERVER, SpanKind.SERVER, SpanKind.INTERNAL)),
        start_ns=start_ns,
        end_ns=end_ns,
        attributes=chance.choice(choices),
    )


def requests(found: Attributed) -> Sequence[Request]:
    made = [request for table in found.tables for request in table.requests()]
    return sorted(made, key=lambda one: (one.trace_id, one.span_id))


def held(block: SpanBlock, traces: Iterable[Sequence[Span]]) -> dict[str, Parts]:
    first, found = 0, dict[str, Parts]()
    for spans in traces:
        rows = np.arange(first, first + len(spans))
        found[spans[0].trace_id] = [(block, rows)]
        first += len(spans)
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_old", [False, True], ids=["young", "old"])
def test_memory_and_the_store_give_the_same_requests(
    store: ChdbStore, seed: int, is_old: bool
) -> None:
    chance = Random(2 * seed + is_old)
    traces = [odd_trace(chance) for _ in range(TRACES)]
    block = columns(otlp(*(span for spans in traces for span in spans)))
    store.insert([block])
    arrived = store.arrived([spans[0].trace_id for spans in traces])

    ours = Attribution(Telemetry(), lambda _: is_old).attributed({}, {}, held(block, traces))
    stored = Attribution(Telemetry(), lambda _: is_old).attributed(arrived, {})

    assert requests(ours) == requests(stored)
    assert requests(ours)
    assert ours.reasons == stored.reasons


def test_the_order_of_arrival_decides_nothing(store: ChdbStore) -> None:
    root = one_span("e" * 32, ROOT)
    never_ended = replace(root, parent_id=NOWHERE, end_ns=2**64 - 1)
    same_time = replace(root, parent_id=NOWHERE)
    for copies in ((root, never_ended, same_time), (same_time, never_ended, root)):
        block = columns(otlp(*copies))
        found = Attribution(Telemetry(), lambda _: True).attributed({}, {}, held(block, [copies]))
        store.insert([block])
        again = Attribution(Telemetry(), lambda _: True).attributed(
            store.arrived([root.trace_id]), {}
        )
        assert requests(found) == requests(again)
