"""What the journal holds is stored once, with its ledger, and nothing of it is lost on the way."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from numpy.typing import NDArray

from latencytrace.errors import PoisonedBlockError, StoreError
from latencytrace.model import Span, Stage
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.ledgers.context import PipelineContext
from latencytrace.service.ledgers.open_traces import OpenTraces
from latencytrace.service.ledgers.pipeline import HOLD_S, Pipeline
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.span_block import SpanBlock
from latencytrace.service.store import NONE_WITHDRAWN, Revisions, Table, Written
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.spans.otlp_messages import MS, decoding, root_lately
from tests.support.builders.spans.otlp_messages import otlp as encoded
from tests.support.fakes.contracts import FakeClock
from tests.support.waiting import PATIENCE_S, until


class FaultyStore(ChdbStore):
    """Fails when told so."""

    full = False
    poisoned = False
    meanwhile: Callable[[], object] = staticmethod(lambda: None)  # while spans are kept

    def keep(
        self, parts: Sequence[tuple[SpanBlock, NDArray[np.int64]]], age_ns: int | None = None
    ) -> None:
        """Keep spans, once others were let in."""
        self.meanwhile()
        if self.poisoned:
            raise PoisonedBlockError("a block cannot be written as rows")
        super().keep(parts, age_ns)

    def write(
        self,
        tables: Sequence[LedgerTable],
        keep_spans_of: Collection[str],
        withdrawn: Revisions = NONE_WITHDRAWN,
        age_ns: int = 0,
        counted: Collection[tuple[str, str]] = (),
    ) -> Written:
        """Write ledgers, or fail."""
        if self.full:
            raise StoreError("the disk is full")
        return super().write(tables, keep_spans_of, withdrawn, age_ns, counted)


class Rig:
    """A pipeline that holds what comes for its ledgers; its own thread does not run."""

    def __init__(self, store: FaultyStore, folder: Path, keep_spans_ratio: float = 1.0) -> None:
        self.clock = FakeClock()
        self.store = store
        self.folder = folder
        self.telemetry = Telemetry()
        context = PipelineContext(keep_spans_ratio=keep_spans_ratio)
        self.pipeline = Pipeline(store, self.telemetry, self.clock, context, Journal(folder))
        self.committer = self.pipeline._committer
        self.committer.set_interval(10**9, round(HOLD_S * 1e9))
        self.committer.start()

    def send(self, *spans: Span) -> None:
        """Send spans, and wait until they are acknowledged."""
        self.pipeline.submit(otlp.check(encoded(*spans), None, None)).result(timeout=PATIENCE_S)

    def after_s(self, seconds: float) -> int:
        """Let time pass, and attribute what is due then."""
        self.clock.move_s(seconds)
        return self.pipeline.step()

    def rows(self, table: Table) -> int:
        """How many rows a table has."""
        return sum(one.rows for one in self.store.partitions() if one.table is table)

    def in_journal(self) -> list[str]:
        """The files of the journal."""
        return [path.name for path in self.folder.iterdir()]

    def metric(self, name: str, **labels: str) -> float | None:
        """One of the service's own metrics."""
        value = self.telemetry.registry.get_sample_value
        assert value("latencytrace_service_spans_unaccounted") == 0
        return value(f"latencytrace_service_{name}", labels)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FaultyStore]:
    opened = FaultyStore.open(tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture
def rig(store: FaultyStore, tmp_path: Path) -> Iterator[Rig]:
    made = Rig(store, tmp_path / "journal")
    yield made
    store.full = store.poisoned = False
    made.pipeline.close()


@pytest.fixture
def trace_id() -> str:
    return uuid4().hex


def decode_ms(store: ChdbStore, trace_id: str) -> float | None:
    found = store.request(trace_id, None)
    return None if found is None else found.ledger.get(Stage.DECODE, 0) / MS


def test_a_trace_that_is_attributed_soon_is_stored_once_with_its_ledger(
    rig: Rig, trace_id: str
) -> None:
    span = root_lately(trace_id)
    rig.send(decoding(span, "b" * 16, 0, 60))
    rig.send(span)
    before = rig.rows(Table.SPANS), rig.rows(Table.ARRIVALS)
    rig.after_s(1)

    assert decode_ms(rig.store, trace_id) == 60
    assert before == (0, 0)
    assert (rig.rows(Table.SPANS), rig.rows(Table.ARRIVALS)) == (2, 0)
    assert {one.span_id for one in rig.store.kept_spans(trace_id)} == {"a" * 16, "b" * 16}
    assert rig.in_journal() == []
    assert rig.metric("spans_attributed_total") == 2
    assert rig.committer.waiting_bytes == 0


def test_spans_that_are_not_kept_are_stored_once_too_and_have_their_ledger(
    store: FaultyStore, tmp_path: Path
) -> None:
    rig = Rig(store, tmp_path / "journal", keep_spans_ratio=0.0)
    slow, fast = root_lately("f" * 31 + "1", 500), root_lately("f" * 31 + "2", 10)
    rig.send(slow)
    rig.after_s(1)
    rig.send(fast, decoding(fast, "b" * 16, 0, 5))
    rig.after_s(1)
    left, arrived = store.unassembled(), store.arrived_counts([slow.trace_id, fast.trace_id])
    rig.pipeline.close()

    assert (rig.rows(Table.SPANS), rig.rows(Table.ARRIVALS)) == (1, 2)
    assert arrived == {slow.trace_id: 1, fast.trace_id: 2}
    assert left == []
    assert rig.in_journal() == []


def test_what_no_ledger_is_made_of_is_stored_by_itself(rig: Rig, trace_id: str) -> None:
    span = root_lately(trace_id)
    other = root_lately(uuid4().hex)
    rig.send(other, decoding(span, "b" * 16, 0, 60))
    rig.after_s(1)
    held = rig.rows(Table.ARRIVALS), rig.in_journal()
    rig.committer.flush()
    stored = rig.rows(Table.ARRIVALS), rig.in_journal()
    rig.send(span)
    rig.after_s(1)

    assert decode_ms(rig.store, other.trace_id) == 0
    assert held == (0, ["000000000001.spans"])
    assert stored == (1, [])  # of the two spans, the one that was not stored with its ledger
    assert decode_ms(rig.store, trace_id) == 60
    assert rig.store.kept_counts([trace_id]) == {trace_id: 2}
    assert rig.metric("spans_attributed_total") == 3


def test_a_late_span_revises_a_ledger_whose_spans_were_stored_with_it(
    rig: Rig, trace_id: str
) -> None:
    span = root_lately(trace_id)
    rig.send(span)
    rig.after_s(1)
    rig.send(decoding(span, "b" * 16, 0, 60))
    early = rig.after_s(2)
    until(lambda: rig.rows(Table.ARRIVALS) == 1)  # it is waited for, and held no longer
    rig.committer.flush()
    rig.after_s(1)
    found = rig.store.request(trace_id, None)

    assert early == 0
    assert found is not None
    assert found.revision == 2
    assert decode_ms(rig.store, trace_id) == 60
    assert {one.span_id for one in rig.store.kept_spans(trace_id)} == {"a" * 16, "b" * 16}
    assert rig.metric("spans_attributed_total") == 2
    assert rig.store.unassembled() == []


def test_a_span_that_comes_while_its_trace_is_attributed_is_not_lost(
    rig: Rig, trace_id: str
) -> None:
    span = root_lately(trace_id)

    def more() -> None:
        rig.store.meanwhile = lambda: None
        rig.send(decoding(span, "b" * 16, 0, 60))

    rig.store.meanwhile = more
    rig.send(span)
    rig.after_s(1)
    early, journal = decode_ms(rig.store, trace_id), rig.in_journal()
    rig.committer.flush()
    rig.after_s(30)  # nobody knows that its root came

    assert early == 0
    assert len(journal) == 1
    assert decode_ms(rig.store, trace_id) == 60
    assert rig.in_journal() == []
    assert rig.metric("spans_attributed_total") == 2


def test_a_store_that_does_not_take_a_ledger_is_asked_again(rig: Rig, trace_id: str) -> None:
    rig.send(root_lately(trace_id))
    rig.store.full = True
    failed = rig.after_s(1)
    journal = rig.in_journal()
    rig.store.full = False
    for _ in range(2):  # it may have been written: the store is asked, once it has the spans
        rig.committer.flush()
        rig.after_s(2)

    assert failed == 0
    assert journal == ["000000000001.spans"]
    assert decode_ms(rig.store, trace_id) == 0
    assert len(rig.store.written([trace_id])) == 1
    assert rig.in_journal() == []
    assert rig.metric("spans_attributed_total") == 1


def test_a_trace_that_is_given_back_has_its_spans_stored_by_its_next_attribution(
    trace_id: str,
) -> None:
    clock = FakeClock()
    traces = OpenTraces(clock)
    request = otlp.check(encoded(root_lately(trace_id)), None, None)
    traces.arrived([request])
    traces.in_journal(request)

    found = []
    for _ in range(2):
        clock.move_s(2)
        due = traces.due(9)
        found.append((due, [block.count for block in traces.claimed(due)]))
        traces.again(due)

    assert found == [([trace_id], [1])] * 2


def test_spans_that_cannot_be_kept_are_set_aside_and_stored_by_themselves(
    rig: Rig, trace_id: str
) -> None:
    rig.store.poisoned = True
    rig.send(root_lately(trace_id))
    rig.after_s(1)
    rig.committer.flush()

    assert rig.metric("spans_without_ledger_total", reason="fault") == 1
    assert rig.metric("spans_open") == 0
    assert rig.store.arrived_counts([trace_id]) == {trace_id: 1}
    assert rig.in_journal() == []


def test_what_a_dead_service_held_is_attributed_by_the_next(
    rig: Rig, trace_id: str, tmp_path: Path
) -> None:
    span, stored = root_lately(trace_id), root_lately(uuid4().hex)
    rig.send(stored)
    rig.store.full = True  # its spans are stored, its ledger is not
    rig.after_s(1)
    rig.store.full = False
    rig.send(span, decoding(span, "b" * 16, 0, 60))
    journal = tmp_path / "journal"
    left = tmp_path / "left"
    left.mkdir(mode=0o700)
    for path in journal.iterdir():  # as it is when the process dies
        copy = left / path.name
        copy.touch(mode=0o600)
        copy.write_bytes(path.read_bytes())
    after = Pipeline(rig.store, Telemetry(), time.monotonic_ns, journal=Journal(left))
    after.start()
    after.close()

    assert decode_ms(rig.store, trace_id) == 60
    assert decode_ms(rig.store, stored.trace_id) == 0
    assert len(rig.store.written([trace_id, stored.trace_id])) == 2
    assert list(left.iterdir()) == []


def test_a_service_that_ends_stores_what_it_holds(rig: Rig, trace_id: str, tmp_path: Path) -> None:
    span = root_lately(trace_id)
    rig.send(decoding(span, "b" * 16, 0, 60))
    rig.pipeline.close()

    assert rig.store.arrived_counts([trace_id]) == {trace_id: 1}
    assert list((tmp_path / "journal").iterdir()) == []


def test_spans_of_a_trace_that_is_known_wait_until_they_are_stored(
    rig: Rig, trace_id: str
) -> None:
    span = root_lately(trace_id)
    first = replace(span, service="before")
    rig.store.keep([(otlp.check(encoded(first), None, None).columns, np.array([0]))], 0)
    rig.pipeline._traces.left([trace_id])
    rig.send(decoding(span, "b" * 16, 0, 60))
    early = rig.after_s(2)
    rig.committer.flush()
    rig.after_s(1)

    assert early == 0
    assert decode_ms(rig.store, trace_id) == 60


def test_a_post_that_is_sent_again_after_its_ledger_loses_nothing(rig: Rig, trace_id: str) -> None:
    span = root_lately(trace_id)
    spans = [span, decoding(span, "b" * 16, 0, 60)]
    rig.send(*spans)
    rig.after_s(1)
    rig.send(*spans)
    rig.committer.flush()
    rig.after_s(2)

    assert rig.store.arrived_counts([trace_id]) == {trace_id: 4}
    assert not rig.pipeline.is_open(trace_id)
    assert rig.metric("spans_without_ledger_total", reason="lost") == 0
    assert decode_ms(rig.store, trace_id) == 60


def test_spans_that_were_kept_long_ago_are_still_read(
    store: FaultyStore, rig: Rig, trace_id: str
) -> None:
    span = root_lately(trace_id)
    rig.send(decoding(span, "b" * 16, 0, 60), span)
    rig.after_s(1)
    query = store._assembler.query
    query("CREATE TABLE latencytrace.spans_ago AS latencytrace.spans", "Null")
    query(
        "INSERT INTO latencytrace.spans_ago SELECT * REPLACE (Arrived - INTERVAL 5 HOUR AS "
        "Arrived) FROM latencytrace.spans",
        "Null",
    )
    query("EXCHANGE TABLES latencytrace.spans AND latencytrace.spans_ago", "Null")

    assert {one.span_id for one in store.arrived([trace_id])[trace_id]} == {"a" * 16, "b" * 16}
