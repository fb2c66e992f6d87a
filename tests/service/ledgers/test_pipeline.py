"""From committed spans to ledgers, with a real store."""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from numpy.typing import NDArray

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.errors import OverloadedError, StoreError
from latencytrace.model import RepairKind, Request, Span, SpanKind, Stage, Trace, semconv
from latencytrace.service.cohort import Cohort
from latencytrace.service.ingest import admission
from latencytrace.service.ingest.committer import Outcome
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.ledgers import attribution, pipeline
from latencytrace.service.ledgers.column_attribution import ColumnAttribution
from latencytrace.service.ledgers.context import PipelineContext
from latencytrace.service.ledgers.pipeline import Pipeline
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.span_block import SpanBlock
from latencytrace.service.store import NONE_WITHDRAWN, Order, Revisions, Table, Written
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.spans.otlp_messages import child, columns, one_span
from tests.support.builders.spans.otlp_messages import otlp as encoded
from tests.support.compiled import COMPILED
from tests.support.fakes.contracts import FakeClock
from tests.support.tables.ledger_tables import write
from tests.support.waiting import PATIENCE_S, until

MS = 1_000_000
ROOT = "00000000000000a1"
CHILD = "00000000000000a2"
LATE_CHILD = "00000000000000a3"


class FlakyStore(ChdbStore):
    """Refuses to write while told so."""

    full = False
    keeps_and_fails = False  # at the next write
    unreadable = False  # what an earlier service left
    looking: Callable[[], object] = staticmethod(lambda: None)  # for that
    meanwhile: Callable[[], object] = staticmethod(lambda: None)  # between reading and writing
    copies = 0

    def keep_noted(self) -> None:
        """Copy spans, or fail."""
        self.copies += 1
        if self.full:
            raise StoreError("the disk is full")
        super().keep_noted()

    def unassembled(self) -> Sequence[str]:
        """Look for what was left, or fail."""
        self.looking()
        if self.unreadable:
            raise StoreError("a part is gone")
        return super().unassembled()

    def write(
        self,
        tables: Sequence[LedgerTable],
        keep_spans_of: Collection[str],
        withdrawn: Revisions = NONE_WITHDRAWN,
        age_ns: int = 0,
        counted: Collection[tuple[str, str]] = (),
    ) -> Written:
        """Keep them, or fail."""
        if self.full:
            raise StoreError("the disk is full")
        written = super().write(tables, keep_spans_of, withdrawn, age_ns, counted)
        if self.keeps_and_fails:
            self.keeps_and_fails = False
            raise StoreError("the store kept 1 of 2 rows: they are inserted again")
        return written

    def keep(
        self, parts: Sequence[tuple[SpanBlock, NDArray[np.int64]]], age_ns: int | None = None
    ) -> None:
        """Keep spans, once others were let in."""
        self.meanwhile()
        super().keep(parts, age_ns)


def arrive(pipeline: Pipeline, block: bytes) -> None:
    """Tell a pipeline of spans that are in the store."""
    checked = otlp.check(block, otlp.PROTOBUF, None)
    pipeline._traces.arrived([checked])
    pipeline._traces.ended([checked], Outcome.STORED)


class Rig:
    """A pipeline that is stepped by hand."""

    def __init__(self, store: FlakyStore, settle_s: float = 0.0) -> None:
        self.clock = FakeClock()
        self.store = store
        self.telemetry = Telemetry()
        self.tidied = 0
        context = PipelineContext(tidy=self._tidy, settle_s=settle_s)
        self.pipeline = Pipeline(store, self.telemetry, self.clock, context)

    def _tidy(self) -> None:
        self.tidied += 1

    def send(self, *spans: Span) -> None:
        """Have spans committed."""
        block = encoded(*spans)
        self.store.insert([otlp.check(block, None, None).columns])
        arrive(self.pipeline, block)

    def after_s(self, seconds: float) -> None:
        """Let time pass, and divide what is due then."""
        self.clock.move_s(seconds)
        self.pipeline.step()

    def counted(self, name: str) -> float:
        """The sum of a metric over its labels."""
        return sum(
            sample.value
            for family in self.telemetry.registry.collect()
            for sample in family.samples
            if sample.name == name
        )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlakyStore]:
    """One for all tests: each sends traces of its own."""
    opened = FlakyStore.open(tmp_path_factory.mktemp("store"))
    yield opened
    opened.close()


@pytest.fixture
def rig(store: FlakyStore) -> Iterator[Rig]:
    yield Rig(store)
    store.full = False
    store.meanwhile = lambda: None


@pytest.fixture
def trace_id() -> str:
    return uuid4().hex


def root(trace_id: str) -> Span:
    now_ns = time.time_ns() - 1000 * MS
    return one_span(trace_id, ROOT, start_ns=now_ns, end_ns=now_ns + 100 * MS)


def ledger(store: ChdbStore, trace_id: str) -> Mapping[Stage, int]:
    found = store.request(trace_id, None)
    assert found is not None
    assert sum(found.ledger.values()) == found.duration_ns
    return found.ledger


def let_the_store_s_clock_go_on(store: ChdbStore) -> None:
    """Wait until what arrives is later than what was read and written: it counts milliseconds."""
    before_ns = max(time.time_ns(), store.last_written_ns())
    until(lambda: time.time_ns() // MS > before_ns // MS)


def test_a_quiet_trace_becomes_a_ledger(rig: Rig, trace_id: str) -> None:
    span = root(trace_id)
    rig.send(span, child(span, CHILD, Stage.RETRIEVE, 10, 40))
    rig.after_s(1)

    assert ledger(rig.store, trace_id) == {Stage.RETRIEVE: 30 * MS, Stage.UNATTRIBUTED: 70 * MS}
    assert rig.counted("latencytrace_requests_total") == 1


def test_spans_that_are_kept_are_copied_now_and_then(rig: Rig) -> None:
    before = rig.store.copies
    copies = []
    for _ in range(5):
        rig.pipeline.keep_noted()
        copies.append(rig.store.copies - before)
        rig.clock.move_s(pipeline.KEEP_PACE_S / 2)

    assert copies == [1, 1, 2, 2, 3]


def test_spans_that_cannot_be_copied_are_copied_later(rig: Rig, trace_id: str) -> None:
    rig.send(root(trace_id))
    rig.after_s(1)
    rig.store.full = True
    rig.pipeline.keep_noted()
    rig.store.full = False

    assert rig.counted("latencytrace_service_store_errors_total") == 1
    assert rig.store.kept_counts([trace_id]) == {trace_id: 1}


def test_a_shared_step_is_kept_and_is_no_request(rig: Rig, trace_id: str) -> None:
    step = replace(root(trace_id), attributes={semconv.SHARED: True}, kind=SpanKind.INTERNAL)
    inner = child(step, CHILD, Stage.FORWARD, 10, 40)
    rig.send(step, inner)
    rig.after_s(1)

    assert rig.store.request(trace_id, None) is None
    assert rig.counted("latencytrace_requests_total") == 0
    assert rig.store.kept_counts([trace_id]) == {trace_id: 2}


def test_an_open_trace_says_so(rig: Rig, trace_id: str) -> None:
    rig.send(root(trace_id))
    before = rig.pipeline.is_open(trace_id)
    rig.after_s(1)

    assert (before, rig.pipeline.is_open(trace_id)) == (True, False)


def test_a_late_span_writes_a_revision_that_balances(rig: Rig, trace_id: str) -> None:
    span = root(trace_id)
    rig.send(span)
    rig.after_s(1)
    rig.send(child(span, LATE_CHILD, Stage.DECODE, 50, 90))
    rig.after_s(5)

    found = rig.store.request(trace_id, None)
    assert found is not None
    assert found.revision == 2
    assert ledger(rig.store, trace_id) == {Stage.DECODE: 40 * MS, Stage.UNATTRIBUTED: 60 * MS}


def test_a_revision_is_counted_apart(rig: Rig, trace_id: str) -> None:
    span = root(trace_id)
    rig.send(span)
    rig.after_s(1)
    rig.send(child(span, LATE_CHILD, Stage.DECODE, 50, 90))
    rig.after_s(5)

    assert rig.counted("latencytrace_requests_total") == 1
    assert rig.counted("latencytrace_service_revised_total") == 1


def test_a_part_that_only_the_journal_holds_is_divided_with_the_rest(
    store: FlakyStore, trace_id: str, tmp_path: Path
) -> None:
    clock, telemetry = FakeClock(), Telemetry()
    pipeline = Pipeline(store, telemetry, clock, journal=Journal(tmp_path))
    pipeline._committer.set_interval(10**18)
    pipeline._committer.start()
    span = root(trace_id)
    for sent in (root(uuid4().hex), child(span, CHILD, Stage.RETRIEVE, 0, 60), span):
        pipeline.submit(otlp.check(encoded(sent), otlp.PROTOBUF, None)).result(timeout=PATIENCE_S)
    before = store.arrived([trace_id])

    pipeline._committer.flush()
    clock.move_s(1)
    pipeline.step()
    pipeline.close()

    assert before == {}
    assert ledger(store, trace_id)[Stage.RETRIEVE] == 60 * MS


def test_a_trace_sent_twice_is_one_request(rig: Rig, trace_id: str) -> None:
    span = replace(root(trace_id), service=trace_id)
    rig.send(span)
    rig.send(span)
    rig.after_s(1)

    cohort = Cohort(service=trace_id)
    assert len(rig.store.requests(cohort, Order.NEWEST, 10)) == 1


@pytest.mark.parametrize("first", [0, 1])
def test_spans_that_share_an_id_and_differ_are_a_repair(
    rig: Rig, trace_id: str, first: int
) -> None:
    span = root(trace_id)
    copies = [child(span, CHILD, Stage.RETRIEVE, *at) for at in ((10, 40), (35, 45))]
    rig.send(span, copies[first], copies[1 - first], copies[first])
    rig.after_s(1)

    found = rig.store.request(trace_id, None)
    assert found is not None
    assert [(one.kind, one.span_id) for one in found.repairs] == [(RepairKind.DUPLICATE, CHILD)]
    assert ledger(rig.store, trace_id) == {Stage.RETRIEVE: 30 * MS, Stage.UNATTRIBUTED: 70 * MS}
    kept = [(one.span_id, one.end_ns - one.start_ns) for one in rig.store.kept_spans(trace_id)]
    assert sorted(kept) == [(ROOT, 100 * MS), (CHILD, 10 * MS), (CHILD, 30 * MS)]


def test_a_trace_without_root_is_divided_when_its_root_comes(rig: Rig, trace_id: str) -> None:
    span = root(trace_id)
    rig.send(child(span, CHILD, Stage.DECODE, 0, 100))
    rig.after_s(30)
    rig.clock.move_s(700)
    rig.send(span)
    rig.after_s(1)

    assert ledger(rig.store, trace_id) == {Stage.DECODE: 100 * MS}


def test_a_request_that_turns_out_to_be_part_of_another_is_withdrawn(
    rig: Rig, trace_id: str
) -> None:
    outer = replace(root(trace_id), service=trace_id)
    inner = replace(outer, span_id=CHILD, parent_id=outer.span_id, end_ns=outer.end_ns - 30 * MS)
    rig.send(inner)
    rig.after_s(1)
    rig.send(outer)
    rig.after_s(5)

    listed = rig.store.requests(Cohort(service=trace_id), Order.NEWEST, 10)
    assert [request.span_id for request in listed] == [ROOT]
    assert rig.store.breakdown(Cohort(service=trace_id)).requests == 1
    assert rig.counted("latencytrace_service_withdrawn_requests_total") == 1


def test_a_request_of_another_service_stays_one_inside_the_outermost(
    rig: Rig, trace_id: str
) -> None:
    outer = root(trace_id)
    inner = replace(outer, span_id=CHILD, parent_id=outer.span_id, service=trace_id)
    rig.send(inner)
    rig.after_s(1)
    rig.send(outer)
    rig.after_s(5)

    [found] = rig.store.requests(Cohort(service=trace_id), Order.NEWEST, 10)
    assert (found.outermost, found.revision) == (False, 2)


@COMPILED
def test_requests_by_columns_are_written_revised_and_counted_once(rig: Rig) -> None:
    ids = [uuid4().hex for _ in range(3)]
    roots = [replace(root(one), service=ids[0]) for one in ids]
    rig.send(*roots, child(roots[0], CHILD, Stage.RETRIEVE, 10, 40))
    rig.after_s(1)
    first = [rig.store.request(one, None) for one in ids]
    rig.send(child(roots[1], LATE_CHILD, Stage.DECODE, 50, 90))
    rig.after_s(5)

    by_columns = rig.telemetry.registry.get_sample_value(
        "latencytrace_service_attributed_traces_total", {"by": "columns"}
    )
    assert by_columns == 3
    assert [one.revision for one in first if one] == [1, 1, 1]
    assert ledger(rig.store, ids[0])[Stage.RETRIEVE] == 30 * MS
    assert ledger(rig.store, ids[1])[Stage.DECODE] == 40 * MS
    assert rig.store.breakdown(Cohort(service=ids[0])).requests == 3
    assert rig.counted("latencytrace_requests_total") == 3
    assert rig.counted("latencytrace_service_revised_total") == 1
    assert rig.counted("latencytrace_service_spans_unaccounted") == 0


def test_a_store_that_fails_is_given_requests_by_columns_again(rig: Rig, trace_id: str) -> None:
    rig.store.full = True
    rig.send(root(trace_id))
    rig.after_s(1)
    rig.store.full = False
    before = rig.store.request(trace_id, None)
    rig.after_s(30)

    assert before is None
    assert sum(ledger(rig.store, trace_id).values()) == 100 * MS
    assert rig.counted("latencytrace_requests_total") == 1
    assert rig.counted("latencytrace_service_spans_unaccounted") == 0


def test_a_store_that_fails_is_asked_again(
    rig: Rig, trace_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig.send(root(trace_id))
    rig.store.full = True
    rig.after_s(1)
    rig.store.full = False
    rig.after_s(1)

    assert ledger(rig.store, trace_id)
    assert rig.counted("latencytrace_service_store_errors_total") == 1
    assert "the disk is full" in caplog.text


def test_a_step_says_that_the_store_failed_at_the_batch_before(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for most in ("BATCH_TRACES", "BATCH_COLUMNS"):
        monkeypatch.setattr(pipeline, most, 1)
    revised, failing = root(uuid4().hex), root(uuid4().hex)
    rig.send(revised)
    rig.after_s(1)
    rig.send(failing)
    rig.clock.move_s(1)
    rig.store.keeps_and_fails = True
    taken = [rig.pipeline.step(ahead=True)]
    rig.send(child(revised, LATE_CHILD, Stage.DECODE, 50, 90))
    rig.clock.move_s(5)
    taken.append(rig.pipeline.step(ahead=True))
    rig.after_s(5)

    assert taken == [1, 0]
    assert ledger(rig.store, revised.trace_id)[Stage.DECODE] == 40 * MS
    assert ledger(rig.store, failing.trace_id)


@pytest.mark.usefixtures("by_objects")
@pytest.mark.parametrize("step", ["build_traces", "critical_path", "request_of"])
def test_a_trace_that_cannot_be_divided_stops_no_other(
    rig: Rig,
    trace_id: str,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = uuid4().hex
    original = getattr(attribution, step)

    def faulty(what: Trace | Sequence[Span], *more: object, **named: object) -> object:
        one = what.root if isinstance(what, Trace) else what[0]
        if one.trace_id == bad:
            raise ValueError("a promise was broken")
        return original(what, *more, **named)

    monkeypatch.setattr(attribution, step, faulty)
    rig.send(root(bad), root(trace_id))
    rig.after_s(1)

    assert rig.store.request(bad, None) is None
    assert ledger(rig.store, trace_id)
    assert rig.counted("latencytrace_service_faulty_traces_total") == 1
    assert bad in caplog.text


@pytest.mark.usefixtures("by_objects")
def test_a_ledger_that_the_store_cannot_read_stops_no_other(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spans = [root(uuid4().hex) for _ in range(9)]
    bad = spans[4].trace_id
    made = vars(attribution)["request_of"]

    def unreadable(trace: Trace, *more: object) -> Request:
        request: Request = made(trace, *more)
        return replace(request, duration_ns=-50) if trace.root.trace_id == bad else request

    monkeypatch.setattr(attribution, "request_of", unreadable)
    rig.send(*spans)
    rig.after_s(1)
    rig.after_s(1)

    written = {span.trace_id for span in spans if rig.store.request(span.trace_id, None)}
    assert written == {span.trace_id for span in spans} - {bad}
    assert rig.counted("latencytrace_service_faulty_traces_total") == 1
    assert rig.counted("latencytrace_service_spans_unaccounted") == 0
    assert rig.counted("latencytrace_service_spans_open") == 0
    assert bad in caplog.text


def test_a_ledger_outlives_the_spans_it_was_made_of(rig: Rig, trace_id: str) -> None:
    span = root(trace_id)
    write(rig.store, requests_of([span, child(span, CHILD, Stage.DECODE, 0, 90)], {}), ())
    for ids in rig.store.known_traces():
        rig.pipeline._traces.known(ids)
    rig.send(child(span, LATE_CHILD, Stage.RESPOND, 90, 100))
    rig.after_s(30)

    assert ledger(rig.store, trace_id) == {Stage.DECODE: 90 * MS, Stage.UNATTRIBUTED: 10 * MS}
    assert rig.counted("latencytrace_service_outdated_traces_total") == 1


def test_a_root_sent_again_after_its_spans_were_dropped_replaces_no_ledger(
    rig: Rig, trace_id: str
) -> None:
    span = root(trace_id)
    rig.send(span, child(span, CHILD, Stage.DECODE, 0, 90))
    rig.after_s(1)
    for partition in rig.store.partitions():
        if partition.table is not Table.REQUESTS:
            rig.store.drop(partition)
    rig.send(span)
    for _ in range(4):
        rig.after_s(40)

    assert ledger(rig.store, trace_id) == {Stage.DECODE: 90 * MS, Stage.UNATTRIBUTED: 10 * MS}
    assert rig.counted("latencytrace_service_outdated_traces_total") == 1
    assert rig.counted("latencytrace_service_spans_unaccounted") == 0


def test_nothing_more_is_taken_while_too_much_is_not_divided(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(rig.pipeline._traces), "is_overfull", True)

    with pytest.raises(OverloadedError, match="again in a second"):
        rig.pipeline.submit(otlp.check(encoded(root(uuid4().hex)), otlp.PROTOBUF, None))


def test_spans_that_are_refused_leave_no_trace_open(rig: Rig, trace_id: str) -> None:
    rig.pipeline._committer.close()
    with pytest.raises(StoreError, match="send the spans again later"):
        rig.pipeline.keep(otlp.check(encoded(root(trace_id)), otlp.PROTOBUF, None))

    assert not rig.pipeline.is_open(trace_id)
    assert rig.counted("latencytrace_service_spans_unaccounted") == 0


@pytest.mark.parametrize("has_journal", [True, False])
def test_spans_are_inserted_once_a_second_where_a_journal_holds_them_meanwhile(
    store: FlakyStore, tmp_path: Path, has_journal: bool
) -> None:
    journal = Journal(tmp_path) if has_journal else None
    pipeline = Pipeline(store, Telemetry(), FakeClock(), journal=journal)
    pipeline.resume()

    assert pipeline._committer._queue.interval_ns == (1000 * MS if has_journal else 100 * MS)


def test_who_sends_faster_than_traces_are_attributed_is_put_off(
    store: FlakyStore, trace_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "PACE_S", 0.01)
    monkeypatch.setattr(admission, "LEAST_BYTES", 0)
    clock, entered, may_go_on = FakeClock(), threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        may_go_on.wait(PATIENCE_S)

    store.meanwhile = wait
    busy = Pipeline(store, Telemetry(), clock)
    busy.start()
    until(lambda: busy._has_taken_up)
    sent = otlp.check(encoded(root(trace_id)), otlp.PROTOBUF, None)
    busy.submit(sent).result(timeout=PATIENCE_S)
    clock.move_s(2)
    assert entered.wait(PATIENCE_S)
    other = otlp.check(encoded(root(uuid4().hex)), otlp.PROTOBUF, None)
    busy.submit(other).result(timeout=PATIENCE_S)  # it has only begun
    clock.move_s(4)
    with pytest.raises(OverloadedError, match="again in a second"):
        busy.submit(sent)
    may_go_on.set()

    def is_let_in() -> bool:
        try:
            busy.submit(otlp.check(encoded(root(trace_id)), otlp.PROTOBUF, None))
        except OverloadedError:
            return False
        return True

    until(is_let_in)
    store.meanwhile = lambda: None
    busy.close()


@pytest.fixture
def slow(by_objects: None, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Attributes a span a second, and lets few in."""
    monkeypatch.setattr(pipeline, "BATCH_TRACES", 1)
    monkeypatch.setattr(admission, "LEAST_BYTES", 0)
    rig.pipeline._has_taken_up = True
    rig.store.meanwhile = lambda: rig.clock.move_s(1)
    return rig


def is_let_in(rig: Rig, *spans: Span, after_s: float) -> bool:
    """Whether more are let in, after a batch of what came until then."""
    if spans:
        rig.send(*spans)
    rig.clock.move_s(after_s)
    rig.pipeline._admission.rest()
    rig.pipeline._has_more_after_step()
    try:
        rig.pipeline.require_room()
    except OverloadedError:
        return False
    return True


def test_no_more_is_let_in_while_there_is_work_for_some_seconds(slow: Rig) -> None:
    few, many = (
        is_let_in(slow, *(root(uuid4().hex) for _ in range(count)), after_s=1) for count in (2, 3)
    )
    fewer = [is_let_in(slow, after_s=0) for _ in range(4)]

    assert (few, many, fewer) == (True, False, [True] * 4)


def test_no_more_is_let_in_while_what_is_due_waits_for_seconds(slow: Rig) -> None:
    first = is_let_in(slow, *(root(uuid4().hex) for _ in range(3)), after_s=1)
    late = is_let_in(slow, after_s=3)
    then = is_let_in(slow, after_s=0)

    assert (first, late, then) == (True, False, True)


def test_more_is_let_in_while_a_store_that_failed_hangs(slow: Rig) -> None:
    slow.store.full = True
    is_let_in(slow, root(uuid4().hex), after_s=3)
    slow.pipeline._admission.begin()
    slow.clock.move_s(1000)
    slow.pipeline.require_room()
    slow.store.full = False


def test_long_traces_tell_the_pace_too(slow: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "BATCH_TRACES", 500)
    monkeypatch.setattr(pipeline, "LARGE_SPANS", 3)
    monkeypatch.setattr(admission, "FIRST_RATE", 1.5)

    def is_let_in_beside_four(*ended: Span) -> bool:
        is_let_in(slow, *ended, after_s=1)
        return is_let_in(slow, *(root(uuid4().hex) for _ in range(4)), after_s=0)

    long = root(uuid4().hex)
    spans = [
        child(long, CHILD, Stage.RETRIEVE, 0, 60),
        child(long, CHILD[:-1] + "3", Stage.RETRIEVE, 0, 60),
    ]

    assert not is_let_in_beside_four(root(uuid4().hex))
    assert is_let_in_beside_four(long, *spans)


def test_more_is_let_in_while_the_store_fails(slow: Rig) -> None:
    few = is_let_in(slow, root(uuid4().hex), after_s=3)
    slow.store.full = True
    many = is_let_in(slow, *(root(uuid4().hex) for _ in range(9)), after_s=3)
    slow.store.full = False
    again = is_let_in(slow, after_s=3)

    assert (few, many, again) == (True, True, False)


def test_traces_that_wait_for_their_root_are_no_work(slow: Rig) -> None:
    waiting = [child(root(uuid4().hex), CHILD, Stage.RETRIEVE, 0, 60) for _ in range(10)]

    assert is_let_in(slow, root(uuid4().hex), root(uuid4().hex), *waiting, after_s=1.5)


def test_what_a_dead_service_left_is_divided_by_the_next(rig: Rig, trace_id: str) -> None:
    rig.store.insert([columns(encoded(root(trace_id)))])  # committed, and then the process dies
    after = Pipeline(rig.store, Telemetry(), time.monotonic_ns)
    after.start()
    after.close()

    found = rig.store.request(trace_id, None)
    assert found is not None
    assert found.revision == 1


def test_spans_are_taken_before_what_was_left_is_found_and_attributed_with_it(
    store: FlakyStore, trace_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "PACE_S", 0.01)
    span = root(trace_id)
    store.insert([columns(encoded(child(span, CHILD, Stage.RETRIEVE, 0, 60)))])
    may_look = threading.Event()
    store.looking = lambda: may_look.wait(PATIENCE_S)
    after = Pipeline(store, Telemetry(), time.monotonic_ns)
    after.start()
    after.submit(otlp.check(encoded(span), otlp.PROTOBUF, None)).result(timeout=PATIENCE_S)
    taken_first = store.request(trace_id, None) is None and after.is_open(trace_id)
    may_look.set()
    after.close()
    store.looking = lambda: None

    assert taken_first
    assert ledger(store, trace_id) == {Stage.RETRIEVE: 60 * MS, Stage.UNATTRIBUTED: 40 * MS}


def test_what_was_left_is_looked_for_until_it_can_be_read(
    store: FlakyStore, trace_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "PACE_S", 0.01)
    store.insert([columns(encoded(root(trace_id)))])
    store.unreadable = True
    after = Pipeline(store, Telemetry(), time.monotonic_ns)
    after.start()
    until(lambda: after.fault is not None)
    fault = after.fault
    before = store.request(trace_id, None)
    store.unreadable = False
    until(lambda: after.fault is None)
    after.close()

    assert fault == "what an earlier run left cannot be read: a part is gone"
    assert before is None
    assert store.request(trace_id, None) is not None


def test_a_late_span_that_a_dead_service_left_revises_its_request(rig: Rig, trace_id: str) -> None:
    span = root(trace_id)
    rig.send(span)
    rig.after_s(1)
    let_the_store_s_clock_go_on(rig.store)
    rig.store.insert([columns(encoded(child(span, LATE_CHILD, Stage.DECODE, 50, 90)))])
    after = Pipeline(rig.store, Telemetry(), time.monotonic_ns)
    after.start()
    after.close()

    assert ledger(rig.store, trace_id) == {Stage.DECODE: 40 * MS, Stage.UNATTRIBUTED: 60 * MS}


def test_a_span_that_arrives_during_a_division_is_left_to_the_next_service(
    rig: Rig, trace_id: str
) -> None:
    ahead_ns = 0
    before = Pipeline(rig.store, Telemetry(), lambda: time.monotonic_ns() + ahead_ns)
    span = root(trace_id)
    rig.store.insert([columns(encoded(span))])
    arrive(before, encoded(span))
    late = encoded(child(span, LATE_CHILD, Stage.DECODE, 50, 90))

    def let_it_arrive() -> None:
        let_the_store_s_clock_go_on(rig.store)
        rig.store.insert([columns(late)])

    rig.store.meanwhile = let_it_arrive
    ahead_ns = 2_000 * MS
    before.step()  # and then the process dies
    rig.store.meanwhile = lambda: None

    after = Pipeline(rig.store, Telemetry(), time.monotonic_ns)
    after.start()
    after.close()

    assert ledger(rig.store, trace_id) == {Stage.DECODE: 40 * MS, Stage.UNATTRIBUTED: 60 * MS}


def test_what_was_divided_is_left_alone_by_the_next(rig: Rig, trace_id: str) -> None:
    rig.send(root(trace_id))
    rig.after_s(1)
    after = Pipeline(rig.store, Telemetry(), time.monotonic_ns)
    after.start()
    after.close()

    found = rig.store.request(trace_id, None)
    assert found is not None
    assert found.revision == 1


def test_what_is_sent_again_changes_nothing(rig: Rig, trace_id: str) -> None:
    span = root(trace_id)
    rig.send(span, child(span, CHILD, Stage.RETRIEVE, 10, 40))
    rig.after_s(1)
    before = rig.store.request(trace_id, None)
    rig.send(span, child(span, CHILD, Stage.RETRIEVE, 10, 40))
    rig.after_s(5)

    assert rig.store.request(trace_id, None) == before
    assert trace_id not in rig.store.unassembled()
    assert rig.counted("latencytrace_requests_total") == 1
    assert rig.counted("latencytrace_service_revised_total") == 0


def test_a_late_span_beside_the_critical_path_is_kept(rig: Rig, trace_id: str) -> None:
    span = root(trace_id)
    rig.send(span, child(span, CHILD, Stage.RETRIEVE, 0, 90))
    rig.after_s(1)
    rig.send(child(span, LATE_CHILD, Stage.EMBED, 10, 40))
    rig.after_s(5)

    assert {kept.span_id for kept in rig.store.kept_spans(trace_id)} == {ROOT, CHILD, LATE_CHILD}


def test_requests_a_hundred_days_apart_are_divided_together(rig: Rig, trace_id: str) -> None:
    day_ns = 86_400 * 1000 * MS
    spans = [
        replace(
            root(uuid4().hex), service=trace_id, start_ns=day * day_ns, end_ns=day * day_ns + MS
        )
        for day in range(20_000, 20_101)
    ]
    rig.send(*spans)
    rig.after_s(1)

    assert rig.store.breakdown(Cohort(service=trace_id)).requests == len(spans)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("days_off", [-20_000, 10_000], ids=["never set", "to come"])
def test_a_request_of_a_time_that_cannot_be_is_left_out_of_metrics(
    rig: Rig, trace_id: str, days_off: int
) -> None:
    off_ns = days_off * 86_400 * 1000 * MS
    one = root(trace_id)
    rig.send(replace(one, start_ns=one.start_ns + off_ns, end_ns=one.end_ns + off_ns))
    rig.after_s(5)

    [request] = rig.store.written([trace_id])
    assert [repair.kind for repair in request.repairs] == [RepairKind.IMPLAUSIBLE]
    assert rig.counted("latencytrace_requests_total") == 0


@pytest.mark.usefixtures("both_ways")
def test_a_request_whose_write_failed_after_it_was_kept_is_counted(
    rig: Rig, trace_id: str
) -> None:
    rig.store.keeps_and_fails = True
    rig.send(root(trace_id))
    for _ in range(4):
        rig.after_s(5)

    assert len(rig.store.written([trace_id])) == 1
    assert rig.counted("latencytrace_requests_total") == 1


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_request_that_settles_while_its_revision_is_refused_is_counted_once(
    store: FlakyStore, trace_id: str, is_kept: bool
) -> None:
    rig, span = Rig(store, settle_s=10), root(trace_id)
    rig.send(span)
    rig.after_s(1)
    store.full, store.keeps_and_fails = not is_kept, is_kept
    rig.send(child(span, LATE_CHILD, Stage.DECODE, 50, 90))
    rig.after_s(11)
    store.full = False
    for _ in range(4):
        rig.after_s(11)

    assert ledger(store, trace_id)[Stage.DECODE] == 40 * MS
    assert rig.counted("latencytrace_requests_total") == 1


def test_nothing_is_dropped_that_something_is_still_to_be_made_of(rig: Rig, trace_id: str) -> None:
    rig.pipeline.look_after()
    assert rig.tidied == 1

    rig.store.full = True
    rig.send(root(trace_id))
    rig.after_s(2)
    rig.pipeline.look_after()
    assert rig.tidied == 1

    rig.store.full = False
    rig.after_s(60)
    rig.pipeline.look_after()
    assert len(rig.store.written([trace_id])) == 1
    assert rig.tidied == 2


def test_a_batch_that_lacks_a_few_is_followed_at_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = rig.pipeline._batch_traces
    taken = [batch - 1, batch // 4]
    monkeypatch.setattr(rig.pipeline, "step", lambda **_: taken.pop(0))

    assert rig.pipeline._has_more_after_step()
    assert not rig.pipeline._has_more_after_step()


class Pauses(threading.Event):
    """Says how long each pause would be; after some it is set."""

    def __init__(self, clock: FakeClock, most: int) -> None:
        super().__init__()
        self.clock, self.most = clock, most
        self.lengths_s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Let the time pass at once."""
        self.lengths_s.append(timeout)
        self.clock.move_s(timeout or 0)
        if len(self.lengths_s) == self.most:
            self.set()
        return self.is_set()


def test_rounds_begin_at_the_same_pace_however_long_one_takes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds_s = iter([0.25, 5.0, 0.0])
    monkeypatch.setattr(rig.store, "roll_up", lambda: rig.clock.move_s(next(rounds_s)))
    pauses = rig.pipeline._stopping = Pauses(rig.clock, 4)
    rig.pipeline._thread.start()
    rig.pipeline._thread.join(PATIENCE_S)

    assert pauses.lengths_s == [1.0, 0.75, 0.0, 1.0]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("what", ["metrics", "objectives"])
def test_a_fault_of_counting_ends_nothing_and_is_counted(
    store: FlakyStore, what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig, judged = Rig(store), list[str]()

    def judge(settled: Settled) -> None:
        judged.extend(request.trace_id for request in settled.each())

    def broken(*_: object) -> None:
        raise RuntimeError("a promise was broken")

    on_settled = broken if what == "objectives" else judge
    rig.pipeline = Pipeline(store, Telemetry(), rig.clock, PipelineContext(on_settled=on_settled))
    rig.telemetry = rig.pipeline._telemetry
    ids = [uuid4().hex for _ in range(2)]
    with monkeypatch.context() as patched:
        if what == "metrics":
            patched.setattr(rig.telemetry.counted, "count", broken)
        rig.send(root(ids[0]))
        rig.after_s(1)
        rig.after_s(1)
    rig.send(root(ids[1]))
    rig.after_s(1)
    rig.after_s(1)

    assert rig.counted("latencytrace_service_faulty_batches_total") >= 1
    assert "please report this" in caplog.text
    # What is counted elsewhere, and later, is.
    assert rig.counted("latencytrace_requests_total") == (1 if what == "metrics" else 2)
    assert judged == (ids if what == "metrics" else [])
    assert all(ledger(store, one) for one in ids)


@pytest.mark.usefixtures("both_ways")
def test_weights_are_believed_up_to_the_largest(store: FlakyStore) -> None:
    rig = Rig(store)
    context = PipelineContext(columns=ColumnAttribution(10))
    rig.pipeline = Pipeline(store, Telemetry(), rig.clock, context)
    rates = {uuid4().hex: rate for rate in (2, 10, 11, 10**9)}

    rig.send(*(replace(root(one), attributes={"SampleRate": rate}) for one, rate in rates.items()))
    rig.after_s(1)

    found = {rate: store.request(one, None) for one, rate in rates.items()}
    weights = {rate: one.weight for rate, one in found.items() if one}
    assert weights == {2: 2, 10: 10, 11: 1, 10**9: 1}
