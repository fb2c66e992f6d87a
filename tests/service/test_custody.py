"""No span that was acknowledged goes by unaccounted, whatever the store does meanwhile."""

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from latencytrace.model import RepairKind, Span, SpanKind, Stage, semconv
from latencytrace.service.cohort import Cohort
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.ledgers.assembler import MISSED_NS
from latencytrace.service.ledgers.context import PipelineContext
from latencytrace.service.ledgers.missing_ledgers import AFTER_S, PACE_S, MissingLedgers
from latencytrace.service.ledgers.open_traces import Bounds, OpenTraces
from latencytrace.service.ledgers.pipeline import Pipeline
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.span_block import SpanBlock
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.spans.otlp_messages import MS, columns, decoding, root_lately
from tests.support.builders.spans.otlp_messages import otlp as encoded
from tests.support.fakes.contracts import FakeClock
from tests.support.tables.ledger_tables import tables_of
from tests.support.waiting import PATIENCE_S

SETTLE_S = 10.0


class HidingStore(ChdbStore):
    """Takes its time to insert, and does not show some spans, while told so."""

    may_insert = threading.Event()
    inserting = threading.Event()
    hidden: frozenset[str] = frozenset()  # ids of spans

    def insert(self, blocks: Sequence[SpanBlock], age_ns: int | None = None) -> None:
        """Keep them, once it may."""
        self.inserting.set()
        self.may_insert.wait()
        super().insert(blocks, age_ns)

    def arrived(self, trace_ids: Collection[str]) -> Mapping[str, tuple[Span, ...]]:
        """Those that are not hidden."""
        return {
            trace_id: tuple(span for span in spans if span.span_id not in self.hidden)
            for trace_id, spans in super().arrived(trace_ids).items()
        }

    def arrived_counts(self, trace_ids: Collection[str]) -> Mapping[str, int]:
        """Those that are not hidden."""
        shown = self.arrived(trace_ids) if self.hidden else {}
        return {one: len(shown[one]) for one in shown} or super().arrived_counts(trace_ids)


class Rig:
    """A pipeline whose threads do not run but for the committer's."""

    def __init__(
        self,
        store: HidingStore,
        folder: Path,
        *,
        counted_until_ns: int | None = None,
        max_held_bytes: int = 1 << 20,
    ) -> None:
        self.clock = FakeClock()
        self.store = store
        self.telemetry = Telemetry()
        self.settled: list[Settled] = []
        self.pipeline = Pipeline(
            store,
            self.telemetry,
            self.clock,
            PipelineContext(
                settle_s=SETTLE_S,
                counted_until_ns=counted_until_ns,
                on_settled=self.settled.append,
            ),
            Journal(folder),
            traces=OpenTraces(self.clock, Bounds(held_bytes=max_held_bytes)),
        )
        self.pipeline._committer.start()

    def send(self, *spans: Span) -> None:
        """Send spans, and wait until they are acknowledged."""
        self.pipeline.submit(otlp.check(encoded(*spans), None, None)).result(timeout=PATIENCE_S)

    def stored(self) -> None:
        """Wait until all of them are stored."""
        self.pipeline._committer.flush()

    def step_after_s(self, seconds: float) -> int:
        """Let time pass, and divide what is due then."""
        self.clock.move_s(seconds)
        return self.pipeline.step()

    def metric(self, name: str, **labels: str) -> float | None:
        """One of the service's own metrics."""
        value = self.telemetry.registry.get_sample_value(f"latencytrace_service_{name}", labels)
        assert (
            self.telemetry.registry.get_sample_value("latencytrace_service_spans_unaccounted") == 0
        )
        return value

    def counted(self) -> list[str]:
        """The traces whose requests were counted, in order."""
        return [one.trace_id for settled in self.settled for one in settled.each()]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HidingStore]:
    """One for each test, for the service looks at all that is in it."""
    opened = HidingStore.open(tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture
def rig(store: HidingStore, tmp_path: Path) -> Iterator[Rig]:
    store.may_insert.set()
    store.inserting.clear()
    made = Rig(store, tmp_path / "journal")
    yield made
    store.may_insert.set()
    store.hidden = frozenset()
    made.pipeline.close()


@pytest.fixture
def short_of_memory(store: HidingStore, tmp_path: Path) -> Iterator[Rig]:
    """A rig that has to ask the store for all spans."""
    store.may_insert.set()
    store.inserting.clear()
    made = Rig(store, tmp_path / "journal", max_held_bytes=0)
    yield made
    store.hidden = frozenset()
    made.pipeline.close()


@pytest.fixture
def trace_id() -> str:
    return uuid4().hex


def decode_ms(store: ChdbStore, trace_id: str) -> float | None:
    found = store.request(trace_id, None)
    return None if found is None else found.ledger.get(Stage.DECODE, 0) / MS


def test_a_trace_is_not_attributed_while_its_spans_are_being_inserted(
    rig: Rig, trace_id: str
) -> None:
    span = root_lately(trace_id)
    rig.store.may_insert.clear()
    rig.send(span, decoding(span, "b" * 16, 0, 60))
    rig.store.inserting.wait(timeout=PATIENCE_S)

    divided = rig.step_after_s(20)
    open_spans = rig.metric("spans_open")
    rig.store.may_insert.set()
    rig.stored()
    rig.step_after_s(0)

    assert (divided, open_spans) == (0, 2)
    assert decode_ms(rig.store, trace_id) == 60
    assert rig.metric("spans_attributed_total") == 2
    assert rig.metric("spans_open") == 0


def test_a_part_that_still_waits_keeps_the_other_part_open(rig: Rig, trace_id: str) -> None:
    span = root_lately(trace_id)
    rig.send(span)
    rig.stored()
    rig.store.may_insert.clear()
    rig.send(decoding(span, "b" * 16, 0, 60))

    early = rig.step_after_s(20)
    rig.store.may_insert.set()
    rig.stored()
    rig.step_after_s(0)

    assert early == 0
    assert decode_ms(rig.store, trace_id) == 60


def test_a_trace_of_which_the_store_shows_less_than_it_took_is_given_back(
    short_of_memory: Rig, trace_id: str
) -> None:
    rig = short_of_memory
    span = root_lately(trace_id)
    rig.send(span, decoding(span, "b" * 16, 0, 60))
    rig.stored()
    rig.store.hidden = frozenset({"b" * 16})
    rig.step_after_s(1)
    early = decode_ms(rig.store, trace_id)
    rig.store.hidden = frozenset()
    rig.step_after_s(1)

    assert early is None
    assert decode_ms(rig.store, trace_id) == 60


def test_spans_that_the_store_never_shows_are_counted_and_the_rest_is_attributed(
    short_of_memory: Rig, trace_id: str
) -> None:
    rig = short_of_memory
    span = root_lately(trace_id)
    rig.send(span, decoding(span, "b" * 16, 0, 60))
    rig.stored()
    rig.store.hidden = frozenset({"b" * 16})
    rig.step_after_s(1)
    rig.clock.now_ns += MISSED_NS
    rig.step_after_s(1)

    assert decode_ms(rig.store, trace_id) == 0
    assert rig.metric("spans_without_ledger_total", reason="lost") == 1
    assert rig.metric("spans_attributed_total") == 1


def test_what_came_twice_is_not_missed(rig: Rig, trace_id: str) -> None:
    span = root_lately(trace_id)
    rig.send(span, decoding(span, "b" * 16, 0, 60))
    rig.send(span, decoding(span, "b" * 16, 0, 60))
    rig.stored()
    rig.step_after_s(1)

    assert decode_ms(rig.store, trace_id) == 60
    assert rig.metric("spans_attributed_total") == 4


def test_spans_without_a_request_are_counted_by_reason(rig: Rig, trace_id: str) -> None:
    step = root_lately(uuid4().hex, attributes={semconv.SHARED: True})
    rig.send(decoding(root_lately(trace_id), "b" * 16, 0, 60), step)
    rig.stored()
    rig.step_after_s(30)

    assert rig.metric("spans_rootless") == 1
    assert rig.metric("spans_without_ledger_total", reason="shared_step") == 1


def half_of_a_trace(trace_id: str) -> tuple[Span, Span, Span]:
    """A gateway's own span and its call, and the server span of the worker that it called."""
    above = replace(root_lately(trace_id), service="gateway", instance="gateway-1")
    call = replace(decoding(above, "b" * 16, 10, 90), service="gateway", kind=SpanKind.CLIENT)
    served = replace(decoding(call, "c" * 16, 0, 70), kind=SpanKind.SERVER, attributes={})
    return above, replace(call, attributes={}), served


def test_a_server_span_whose_callers_root_never_comes_is_a_request_once_the_trace_is_old(
    rig: Rig, trace_id: str
) -> None:
    _, call, served = half_of_a_trace(trace_id)
    rig.send(call, served)
    rig.stored()
    rig.step_after_s(1)
    early, early_rootless = rig.store.request(trace_id, None), rig.metric("spans_rootless")
    rig.step_after_s(30)
    found = rig.store.request(trace_id, None)

    assert (early, early_rootless) == (None, 2)
    assert found is not None
    assert (found.span_id, found.duration_ns) == ("c" * 16, 70 * MS)
    assert [repair.kind for repair in found.repairs] == [RepairKind.ROOTLESS]
    assert rig.metric("spans_rootless") == 0
    assert rig.metric("spans_attributed_total") == 2


def test_a_root_that_comes_after_all_takes_its_server_span_back(rig: Rig, trace_id: str) -> None:
    above, call, served = half_of_a_trace(trace_id)
    rig.send(call, served)
    rig.stored()
    rig.step_after_s(1)
    rig.step_after_s(30)
    rig.send(above)
    rig.stored()
    rig.step_after_s(1)
    outer, inner = rig.store.request(trace_id, None), rig.store.request(trace_id, "c" * 16)

    assert outer is not None
    assert inner is not None
    assert (outer.span_id, inner.outermost, inner.revision) == ("a" * 16, False, 2)
    assert inner.repairs == ()
    assert rig.metric("spans_attributed_total") == 3


def test_a_late_span_leaves_a_request_without_its_root_a_request(rig: Rig, trace_id: str) -> None:
    _, call, served = half_of_a_trace(trace_id)
    rig.send(call, served)
    rig.stored()
    rig.step_after_s(1)
    rig.step_after_s(30)
    rig.send(decoding(served, "d" * 16, 0, 60))
    rig.stored()
    rig.step_after_s(1)

    assert decode_ms(rig.store, trace_id) == 60
    assert rig.metric("spans_attributed_total") == 3


def test_spans_that_their_sender_must_send_again_are_in_no_account(rig: Rig) -> None:
    rig.pipeline.close()
    with pytest.raises(Exception, match="shutting down"):
        rig.send(root_lately(uuid4().hex))

    assert rig.metric("spans_open") == 0
    assert rig.metric("spans_received_total") == 0


# The service checks itself


def test_a_root_that_the_store_has_and_no_ledger_is_found_and_attributed(
    rig: Rig, trace_id: str
) -> None:
    rig.store.insert([columns(encoded(root_lately(trace_id)))])  # and the pipeline was never told
    rig.pipeline._missing = MissingLedgers(
        rig.store, rig.clock, lambda: time.time_ns() - 10**9 + rig.clock.now_ns
    )
    rig.clock.move_s(AFTER_S + 2)
    rig.pipeline.check()
    rig.step_after_s(1)
    rig.clock.move_s(PACE_S)
    rig.pipeline.check()

    assert decode_ms(rig.store, trace_id) == 0
    assert rig.metric("recovered_total") == 1
    assert not rig.pipeline.is_open(trace_id)


def test_a_trace_without_a_request_is_not_given_one_later(rig: Rig, trace_id: str) -> None:
    """Of two spans with the root's id the one without an end lasts longer, in the store, too."""
    root = replace(root_lately(trace_id), kind=SpanKind.INTERNAL)
    rig.pipeline._missing = MissingLedgers(
        rig.store, rig.clock, lambda: time.time_ns() - 10**9 + rig.clock.now_ns
    )
    rig.send(root, replace(root, parent_id="d" * 16, end_ns=2**64 - 1))
    rig.stored()
    rig.step_after_s(1)
    rig.stored()  # what has no request
    rig.clock.move_s(AFTER_S + 1)
    rig.pipeline.check()
    asked = set(rig.pipeline._attributor.recovering)
    rig.step_after_s(1)

    assert asked == {trace_id}
    assert rig.metric("recovered_total") == 0


def test_what_has_its_ledger_is_not_found(rig: Rig, trace_id: str) -> None:
    missing = MissingLedgers(
        rig.store, rig.clock, lambda: time.time_ns() - 10**9 + rig.clock.now_ns
    )
    rig.send(root_lately(trace_id))
    rig.stored()
    rig.step_after_s(1)
    rig.clock.move_s(AFTER_S + 2)

    assert trace_id not in missing.found(rig.pipeline.is_open).without_ledger


def test_a_trace_that_was_open_when_it_was_looked_at_is_looked_at_again(
    rig: Rig, trace_id: str
) -> None:
    open_ones = {trace_id}
    missing = MissingLedgers(
        rig.store, rig.clock, lambda: time.time_ns() - 10**9 + rig.clock.now_ns
    )
    rig.store.insert([columns(encoded(root_lately(trace_id)))])
    rig.clock.move_s(AFTER_S + 2)
    early = missing.found(open_ones.__contains__).without_ledger
    open_ones.clear()
    rig.clock.move_s(PACE_S)

    assert trace_id not in early
    assert trace_id in missing.found(open_ones.__contains__).without_ledger


# Counting


def test_a_request_is_counted_once_it_has_settled(rig: Rig, trace_id: str) -> None:
    span = root_lately(trace_id)
    rig.send(span)
    rig.stored()
    rig.step_after_s(1)
    rig.clock.move_s(SETTLE_S - 1)
    rig.send(decoding(span, "b" * 16, 0, 60))
    rig.stored()
    rig.step_after_s(1)
    early = rig.counted()
    rig.step_after_s(SETTLE_S)

    assert early == []
    assert rig.counted() == [trace_id]
    assert next(rig.settled[-1].each()).ledger[Stage.DECODE] == 60 * MS
    assert rig.metric("revised_total") == 0


def test_a_ledger_that_changes_after_it_was_counted_is_counted_as_revised(
    rig: Rig, trace_id: str
) -> None:
    span = root_lately(trace_id)
    rig.send(span)
    rig.stored()
    rig.step_after_s(1)
    rig.step_after_s(SETTLE_S)
    rig.send(decoding(span, "b" * 16, 0, 60))
    rig.stored()
    rig.step_after_s(1)
    rig.step_after_s(SETTLE_S)

    assert rig.counted() == [trace_id]
    assert rig.metric("revised_total") == 1


def test_after_a_kill_the_next_process_counts_what_was_not_counted(
    rig: Rig, tmp_path: Path
) -> None:
    first, second, third = (root_lately(uuid4().hex) for _ in range(3))
    for span in (first, second):
        rig.send(span)
        rig.stored()
        rig.step_after_s(1)
        rig.step_after_s(SETTLE_S / 2)
    rig.step_after_s(SETTLE_S / 2)
    counted_until_ns = rig.settled[-1].until_ns
    rig.send(third, decoding(first, "b" * 16, 0, 60))  # the latter revises what was counted
    rig.stored()
    rig.step_after_s(1)  # and then it is killed

    after = Rig(rig.store, tmp_path / "after", counted_until_ns=counted_until_ns)
    for written_ns, request in rig.store.uncounted(counted_until_ns or 0):
        after.pipeline._settling.add(tables_of([request]), written_ns)
    after.step_after_s(SETTLE_S)
    after.pipeline.close()
    until_ns = after.settled[-1].until_ns

    assert rig.counted() == [first.trace_id, second.trace_id]
    assert after.counted() == [third.trace_id]
    assert until_ns is not None
    assert rig.store.uncounted(until_ns) == []
    assert rig.store.breakdown(Cohort()).requests >= 3
