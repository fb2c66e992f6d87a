"""A batch is attributed while the store takes the one before: nothing is lost, or made twice."""

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from numpy.typing import NDArray

from latencytrace.errors import OverloadedError, StoreError
from latencytrace.model import Request, Span, Stage, Trace, semconv
from latencytrace.service.ingest.committer import Outcome
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.ledgers import assembler, attribution, attributor, pipeline
from latencytrace.service.ledgers.attributor import Attributor
from latencytrace.service.ledgers.context import PipelineContext
from latencytrace.service.ledgers.pipeline import Pipeline
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.span_block import SpanBlock
from latencytrace.service.store import NONE_WITHDRAWN, Revisions, Written
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.spans.otlp_messages import child, one_span
from tests.support.builders.spans.otlp_messages import otlp as encoded
from tests.support.fakes.contracts import FakeClock
from tests.support.waiting import PATIENCE_S, until

MS = 1_000_000
ROOT, LATE_CHILD = "0000000000000001", "0000000000000002"


class HeldStore(ChdbStore):
    """Waits before it writes, and fails where it is told to."""

    before: Callable[[], object] = staticmethod(lambda: None)

    def keep(
        self, parts: Sequence[tuple[SpanBlock, NDArray[np.int64]]], age_ns: int | None = None
    ) -> None:
        """Keep spans, after a while or not at all."""
        self.before()
        super().keep(parts, age_ns)

    def write(
        self,
        tables: Sequence[LedgerTable],
        keep_spans_of: Collection[str],
        withdrawn: Revisions = NONE_WITHDRAWN,
        age_ns: int = 0,
        counted: Collection[tuple[str, str]] = (),
    ) -> Written:
        """Keep ledgers, after a while or not at all."""
        self.before()
        return super().write(tables, keep_spans_of, withdrawn, age_ns, counted)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldStore]:
    """A store, and batches so small that few traces fill one."""
    monkeypatch.setattr(pipeline, "BATCH_TRACES", 1)
    monkeypatch.setattr(pipeline, "BATCH_COLUMNS", 1)
    opened = HeldStore.open(tmp_path / "store")
    yield opened
    opened.close()


class Rig:
    """A pipeline that is stepped by hand, a batch ahead of its store."""

    def __init__(self, store: HeldStore, settle_s: float = 0.0) -> None:
        self.clock, self.store, self.telemetry = FakeClock(), store, Telemetry()
        context = PipelineContext(settle_s=settle_s)
        self.pipeline = Pipeline(store, self.telemetry, self.clock, context)

    def send(self, *spans: Span) -> None:
        """Have spans committed, which are due a while later."""
        checked = otlp.check(encoded(*spans), otlp.PROTOBUF, None)
        self.store.insert([checked.columns])
        self.pipeline._traces.arrived([checked])
        self.pipeline._traces.ended([checked], Outcome.STORED)
        self.clock.move_s(2)

    def counted(self, name: str) -> float:
        """The sum of a metric over its labels."""
        families = self.telemetry.registry.collect()
        return sum(one.value for some in families for one in some.samples if one.name == name)


@pytest.fixture
def rig(store: HeldStore) -> Rig:
    return Rig(store)


def root(trace_id: str) -> Span:
    now_ns = time.time_ns() - 1000 * MS
    return one_span(trace_id, ROOT, start_ns=now_ns, end_ns=now_ns + 100 * MS)


def revision(store: ChdbStore, trace_id: str) -> int | None:
    """The revision that stands; None: there is no ledger."""
    found = store.request(trace_id, None)
    assert found is None or sum(found.ledger.values()) == found.duration_ns
    return None if found is None else found.revision


def test_the_next_batch_is_attributed_while_one_is_written(rig: Rig) -> None:
    first, second = (
        replace(root(uuid4().hex), attributes={semconv.DEVICE_ID: "GPU-1"}) for _ in range(2)
    )
    may_go_on = threading.Event()
    seen: list[str] = []
    rig.store.before = lambda: may_go_on.wait(PATIENCE_S)
    rig.pipeline._attributor._context = PipelineContext(
        on_spans=lambda spans: seen.extend(one.trace_id for one in spans)
    )
    rig.send(first)
    rig.pipeline.step(ahead=True)
    rig.send(second)
    thread = threading.Thread(target=rig.pipeline.step, kwargs={"ahead": True})
    thread.start()
    until(lambda: second.trace_id in seen)
    unwritten = revision(rig.store, first.trace_id)
    may_go_on.set()
    thread.join(PATIENCE_S)
    rig.pipeline.step()

    assert unwritten is None
    assert [revision(rig.store, one.trace_id) for one in (first, second)] == [1, 1]


def test_a_trace_is_not_taken_again_while_it_is_written(rig: Rig) -> None:
    span = root(uuid4().hex)
    may_go_on = threading.Event()
    rig.store.before = lambda: may_go_on.wait(PATIENCE_S)
    rig.send(span)
    rig.pipeline.step(ahead=True)
    rig.send(child(span, LATE_CHILD, Stage.DECODE, 50, 90))
    taken = rig.pipeline._traces.due(10)
    may_go_on.set()
    rig.pipeline.step()
    rig.pipeline.step()

    assert taken == []
    assert revision(rig.store, span.trace_id) == 2
    assert rig.counted("latencytrace_requests_total") == 1


def test_no_commit_stores_spans_of_a_trace_while_it_is_written(rig: Rig) -> None:
    span = root(uuid4().hex)
    may_go_on = threading.Event()
    rig.store.before = lambda: may_go_on.wait(PATIENCE_S)
    rig.send(span)
    rig.pipeline.step(ahead=True)
    late = otlp.check(encoded(child(span, LATE_CHILD, Stage.DECODE, 50, 90)), otlp.PROTOBUF, None)
    rig.pipeline._traces.arrived([late])
    meanwhile = rig.pipeline._traces.begin(late.columns)
    may_go_on.set()
    rig.pipeline.step()

    assert meanwhile is None
    assert rig.pipeline._traces.begin(late.columns) is late.columns


def test_what_settles_while_it_is_revised_is_counted_once(store: HeldStore) -> None:
    rig = Rig(store, settle_s=1.5)
    span = root(uuid4().hex)
    rig.send(span)
    rig.pipeline.step()
    rig.send(child(span, LATE_CHILD, Stage.DECODE, 50, 90))
    rig.pipeline.step(ahead=True)
    for _ in range(2):
        rig.clock.move_s(2)
        rig.pipeline.step()

    assert revision(rig.store, span.trace_id) == 2
    assert rig.counted("latencytrace_requests_total") == 1


def test_nor_is_it_evicted_meanwhile(rig: Rig) -> None:
    span, other = root(uuid4().hex), root(uuid4().hex)
    may_go_on = threading.Event()
    rig.store.before = lambda: may_go_on.wait(PATIENCE_S)
    rig.send(span)
    rig.pipeline.step(ahead=True)
    rig.pipeline._traces._assembler._max_open = 1
    rig.send(child(span, LATE_CHILD, Stage.DECODE, 50, 90), other)
    taken = rig.pipeline._traces.due(10)
    rig.pipeline._traces.again(taken)
    may_go_on.set()
    rig.pipeline.step()
    rig.pipeline.step()
    rig.pipeline.step()

    assert taken == [other.trace_id]
    assert [revision(rig.store, one.trace_id) for one in (span, other)] == [2, 1]


def test_what_the_store_does_not_take_is_attributed_later(rig: Rig) -> None:
    spans = [root(uuid4().hex) for _ in range(3)]

    def fail() -> None:
        raise StoreError("the disk is full")

    rig.store.before = fail
    rig.send(spans[0])
    begun = rig.pipeline.step(ahead=True)
    rig.send(spans[1])
    failed = rig.pipeline.step(ahead=True)
    rig.pipeline.step()
    rig.store.before = lambda: None
    rig.send(spans[2])
    for _ in spans:
        rig.pipeline.step(ahead=True)
    rig.pipeline.step()

    assert (begun, failed) == (1, 0)
    assert [revision(rig.store, one.trace_id) for one in spans] == [1, 1, 1]
    assert rig.counted("latencytrace_requests_total") == 3
    assert rig.counted("latencytrace_service_store_errors_total") >= 2


@pytest.mark.usefixtures("by_objects")
@pytest.mark.parametrize("number", range(3))
def test_a_fault_costs_its_own_trace_alone(
    rig: Rig, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [[root(uuid4().hex) for _ in range(5)] for _ in range(3)]
    bad = batches[number][2].trace_id
    made = vars(attribution)["request_of"]

    def unreadable(trace: Trace, *more: object) -> Request:
        request: Request = made(trace, *more)
        return replace(request, duration_ns=-50) if trace.root.trace_id == bad else request

    monkeypatch.setattr(pipeline, "BATCH_TRACES", 5)
    monkeypatch.setattr(pipeline, "BATCH_COLUMNS", 5)
    monkeypatch.setattr(attribution, "request_of", unreadable)
    for batch in batches:
        rig.send(*batch)
        rig.pipeline.step(ahead=True)
    rig.pipeline.step()

    found = {one.trace_id: revision(rig.store, one.trace_id) for one in chain(*batches)}
    assert found == {trace_id: None if trace_id == bad else 1 for trace_id in found}
    assert rig.counted("latencytrace_service_faulty_traces_total") == 1
    assert rig.counted("latencytrace_service_spans_unaccounted") == 0


def requests_and_unaccounted(telemetry: Telemetry) -> tuple[float, float]:
    """How many requests metrics count, and spans of which nobody knows what became."""
    samples = [one for some in telemetry.registry.collect() for one in some.samples]
    names = ("latencytrace_requests_total", "latencytrace_service_spans_unaccounted")
    requests, lost = (sum(one.value for one in samples if one.name == name) for name in names)
    return requests, lost


@pytest.mark.long
def test_each_request_is_there_once_however_the_store_fails(
    store: HeldStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "BATCH_TRACES", 20)
    monkeypatch.setattr(pipeline, "BATCH_COLUMNS", 20)
    monkeypatch.setattr(pipeline, "PACE_S", 0.01)
    monkeypatch.setattr(assembler, "QUIET_NS", 20 * MS)
    monkeypatch.setattr(attributor, "_OBJECTS_MATTER", 0)  # as if all went by columns
    chance, go_on, ahead = random.Random(7), Attributor.go_on, []

    def noted(self: Attributor, taken: Sequence[str]) -> bool:
        ahead.append(len(taken))
        return go_on(self, taken)

    def now_and_then() -> None:
        time.sleep(0.03 * chance.random())
        if chance.random() < 0.2:
            raise StoreError("the disk is full")

    monkeypatch.setattr(Attributor, "go_on", noted)
    store.before = now_and_then
    telemetry = Telemetry()
    busy = Pipeline(store, telemetry, time.monotonic_ns, journal=Journal(tmp_path / "journal"))
    busy.start()
    roots = [root(uuid4().hex) for _ in range(600)]
    late = [child(one, LATE_CHILD, Stage.DECODE, 50, 90) for one in roots[::9]]
    for sent, size in ((roots, 6), (late, 4)):
        for at in range(0, len(sent), size):
            checked = otlp.check(encoded(*sent[at : at + size]), otlp.PROTOBUF, None)
            until(partial(is_let_in, busy, checked))
    until(lambda: not busy._traces.count)
    store.before = lambda: None
    busy.close()

    written = store.written([one.trace_id for one in roots])
    standing = {one.trace_id: one for one in sorted(written, key=lambda one: one.revision)}
    with_late = {one.trace_id for one in standing.values() if one.ledger.get(Stage.DECODE)}
    assert standing.keys() == {one.trace_id for one in roots}
    assert all(sum(one.ledger.values()) == one.duration_ns for one in standing.values())
    assert with_late == {one.trace_id for one in late}
    assert requests_and_unaccounted(telemetry) == (len(roots), 0)
    assert len(ahead) > 10


def is_let_in(busy: Pipeline, checked: otlp.CheckedRequest) -> bool:
    """Whether spans are taken, and acknowledged."""
    try:
        busy.submit(checked).result(PATIENCE_S)
    except OverloadedError:
        return False
    return True
