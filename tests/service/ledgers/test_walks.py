"""No span that was acknowledged is lost, whatever happens to a service, in whatever order.

A state machine walks over the public face of a pipeline: spans come early, late, twice or without
their root, memory and the number of open traces are short, the store fails before or after it
wrote or takes its time, rows go by age, the process is killed. After each step every span has one
place.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from uuid import UUID

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.typing import NDArray

from latencytrace.errors import OverloadedError, StoreError
from latencytrace.model import Span, Stage
from latencytrace.service.clock import now_ns
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.ledgers.assembler import TraceState
from latencytrace.service.ledgers.context import PipelineContext
from latencytrace.service.ledgers.open_traces import Bounds, OpenTraces
from latencytrace.service.ledgers.pipeline import Pipeline
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.span_block import SpanBlock
from latencytrace.service.store import NONE_WITHDRAWN, Revisions, Table, Written
from latencytrace_examples.sqlite_store import CLOCKS_NS, SqliteStore
from tests.support.builders.spans.otlp_messages import MS, decoding, root_lately
from tests.support.builders.spans.otlp_messages import otlp as encoded
from tests.support.fakes.contracts import FakeClock
from tests.support.waiting import PATIENCE_S, until

CHILDREN: Final = 6  # of a trace at most, each decoding for 5 ms
NEVER_LATE_S: Final = 600.0  # after the first span of a trace
SETTLE_S: Final = 10.0
TRACES: Final = [UUID(int=trace << 64 | trace).hex for trace in range(1, 5)]
PAGE: Final = Path(__file__).parents[3] / "docs" / "pages" / "architecture.md"
CHANGING: Final = (
    "arrived", "ended", "left", "due", "again", "missed", "being_attributed", "attributed",
    "without", "close_all",
)  # fmt: skip


class FlakyStore(SqliteStore):
    """Fails when told so, before or after it wrote, or holds what a commit writes."""

    is_dead = False
    is_holding = False  # an insert of a commit
    may_end: threading.Event  # that insert
    fails: Counter[str]  # how often: "before" it writes, or "after"
    meanwhile: Callable[[], object] = staticmethod(lambda: None)  # while ledgers are written

    def _fail(self, when: str) -> None:
        if self.fails[when]:
            self.fails[when] -= 1
            raise OSError("the disk is full")
        if self.is_dead:
            raise OSError("the process is gone")

    def insert(self, blocks: Sequence[SpanBlock], age_ns: int | None = None) -> None:
        """Keep them, or fail; a commit's are of the time when it began, as the engine has it."""
        if age_ns is None:
            came_ns, self.is_holding = now_ns(), True
            assert self.may_end.wait(PATIENCE_S)
            self.is_holding = False
            age_ns = now_ns() - came_ns - CLOCKS_NS
        self._fail("before")
        super().insert(blocks, age_ns)
        self._fail("after")

    def keep(
        self, parts: Sequence[tuple[SpanBlock, NDArray[np.int64]]], age_ns: int | None = None
    ) -> None:
        """Keep them, or fail."""
        self._fail("before")
        super().keep(parts, age_ns)
        self._fail("after")

    def write(
        self,
        tables: Sequence[LedgerTable],
        keep_spans_of: Collection[str],
        withdrawn: Revisions = NONE_WITHDRAWN,
        age_ns: int = 0,
        counted: Collection[tuple[str, str]] = (),
    ) -> Written:
        """Keep them, or fail, while spans come."""
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        self._fail("before")
        written = super().write(tables, keep_spans_of, withdrawn, age_ns, counted)
        self._fail("after")
        return written


class RunningClock(FakeClock):
    """A clock that is moved, and that runs: the store tells by its own when spans were read."""

    def __init__(self, now_ns: int) -> None:
        super().__init__(now_ns)
        self._began_ns = time.monotonic_ns()

    def __call__(self) -> int:
        """What time it is."""
        return super().__call__() + time.monotonic_ns() - self._began_ns


@dataclass
class Sent:
    """What was acknowledged of one trace."""

    spans: list[Span]  # all that it will have, its root first
    first_s: float
    in_time: set[str] = field(default_factory=set)  # ids of spans that are in the ledger for sure
    known: set[str] = field(default_factory=set)
    is_left: bool = False  # rows of it were dropped: nothing is certain of later spans

    @property
    def has_root(self) -> bool:
        """Whether its root was acknowledged."""
        return self.spans[0].span_id in self.in_time

    def decode_ms(self, ids: Collection[str]) -> int:
        """How long it decodes in these spans."""
        return 5 * len(set(ids) - {self.spans[0].span_id})


def transitions() -> set[tuple[str, str, str]]:
    """The table of transitions of the documentation: from, to, method."""
    rows = (line.split(" | ") for line in PAGE.read_text().splitlines() if line.count(" | ") == 3)
    return {
        (begin, row[1], method.strip("`"))
        for row in rows
        for begin in row[0].removeprefix("| ").split(", ")
        for method in row[3].removesuffix(" |").split(", ")
    }


KNOWN: Final = transitions()


class RecordedTraces(OpenTraces):
    """Open traces that hold each change of a state against the table."""

    def __init__(self, now_ns: Callable[[], int], bounds: Bounds) -> None:
        super().__init__(now_ns, bounds)
        self.walked: set[tuple[str, str, str]] = set()
        self.turn = threading.RLock()  # or a change would be taken for another method's

    def states(self) -> dict[str, TraceState]:
        """The state of each trace that may come."""
        return {trace_id: self.state(trace_id) for trace_id in TRACES}


def recorded(name: str) -> Callable[..., object]:
    """A method of open traces, which holds what it changes against the table."""
    method = getattr(OpenTraces, name)

    def held(traces: RecordedTraces, *args: object, **named: object) -> object:
        with traces.turn:
            before = traces.states()
            found = method(traces, *args, **named)
            changed = {
                (before[one].value, state.value, name)
                for one, state in traces.states().items()
                if state is not before[one]
            }
        traces.walked |= changed
        return found

    return held


for changing in CHANGING:
    setattr(RecordedTraces, changing, recorded(changing))


class Walk(RuleBasedStateMachine):
    """A service, its killer, and the record that its senders keep."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = RunningClock(10**15)
        self.sent: dict[str, Sent] = {}
        self.counted: list[tuple[str, str]] = []

    @initialize(
        held_bytes=st.sampled_from([0, 6_000, 1 << 20]), most=st.sampled_from([1, 3, 1000])
    )
    def begin(self, held_bytes: int, most: int) -> None:
        """Start a service of these bounds."""
        self.folder = TemporaryDirectory()
        self.bounds = Bounds(open=most, closed=most, held_bytes=held_bytes)
        self._start()

    def _start(self) -> None:
        self.store = FlakyStore.open(Path(self.folder.name))
        self.store.fails = Counter()
        self.store.may_end = threading.Event()
        self.store.may_end.set()
        self.commits = threading.Thread()  # what was begun and is held
        self.telemetry = Telemetry()
        self.traces = RecordedTraces(self.clock, self.bounds)
        self.counted.clear()
        self.pipeline = Pipeline(
            self.store,
            self.telemetry,
            self.clock,
            PipelineContext(settle_s=SETTLE_S, on_settled=self._count),
            journal=Journal(Path(self.folder.name) / "journal"),
            traces=self.traces,
        )
        self.pipeline.resume()
        self.pipeline._committer.start()
        self.pipeline.look_back()

    def _count(self, settled: Settled) -> None:
        self.counted += [(one.trace_id, one.span_id) for one in settled.each()]

    @rule(
        trace_id=st.sampled_from(TRACES),
        places=st.lists(st.integers(0, CHILDREN), min_size=1, max_size=4),
    )
    def arrive(self, trace_id: str, places: list[int]) -> None:
        """Post spans of a trace; some may have been posted before."""
        if trace_id not in self.sent:
            root = root_lately(trace_id)
            children = [
                decoding(root, f"{at:016x}", 10 * at, 10 * at + 5) for at in range(1, CHILDREN + 1)
            ]
            self.sent[trace_id] = Sent([root, *children], self.clock() / 1e9)
        sent = self.sent[trace_id]
        spans = [sent.spans[place] for place in places]
        try:
            self.pipeline.submit(otlp.check(encoded(*spans), None, None)).result(timeout=60)
        except OverloadedError:
            return
        ids = {span.span_id for span in spans}
        sent.known |= ids
        if self.clock() / 1e9 - sent.first_s < NEVER_LATE_S and not sent.is_left:
            sent.in_time |= ids

    @rule(
        trace_id=st.sampled_from(TRACES),
        places=st.lists(st.integers(0, CHILDREN), min_size=1, max_size=4),
    )
    def arrive_meanwhile(self, trace_id: str, places: list[int]) -> None:
        """Post spans while the next ledgers are written."""
        self.store.meanwhile = partial(self.arrive, trace_id, places)

    @rule(seconds=st.sampled_from([0.5, 2.0, 2.0, 31.0, 31.0, 301.0, 700.0]))
    def step(self, seconds: float) -> None:
        """Let time pass, and attribute what is due then."""
        self.clock.move_s(seconds)
        self.pipeline.step()

    @rule()
    def look_after(self) -> None:
        """Do what is due from time to time."""
        self.pipeline.look_after()

    @rule()
    def commit(self) -> None:
        """Store what waits, if the store takes it."""
        self.begin_commit()
        self.end_commit()

    @rule()
    def begin_commit(self) -> None:
        """Begin to store what waits; it takes a while."""
        self.end_commit()
        self.clock.move_s(2)
        self.store.may_end.clear()
        self.commits = threading.Thread(target=self._flush)
        self.commits.start()
        until(lambda: self.store.is_holding or not self.commits.is_alive())

    @rule()
    def end_commit(self) -> None:
        """Let the commit that was begun come to its end."""
        self.store.may_end.set()
        if self.commits.is_alive():
            self.commits.join(PATIENCE_S)

    def _flush(self) -> None:
        with suppress(StoreError):
            self.pipeline._committer.flush()

    @rule(when=st.sampled_from(["before", "after"]), times=st.integers(1, 3))
    def break_store(self, when: str, times: int) -> None:
        """Have the store fail so often, before it writes or after it has."""
        self.store.fails[when] = times

    @rule()
    def kill(self) -> None:
        """End the process without notice, and start another."""
        self.store.is_dead = True  # whatever is under way does not come to its end
        self.store.may_end.set()
        self.pipeline._committer.close()
        self.store.close()
        self._start()

    @rule()
    def drop_spans(self) -> None:
        """Drop all spans for their age, unless some are young: their traces are open."""
        if any(map(self.pipeline.is_open, self.sent)):  # no precondition: threads may be at work
            return
        for partition in self.store.partitions():
            if partition.table is not Table.REQUESTS:
                self.store.drop(partition)
        for sent in self.sent.values():
            sent.is_left = True

    @invariant()
    def each_span_has_one_place(self) -> None:
        """Hold the account of spans."""
        if self.sent:
            assert self._metric("spans_unaccounted") == 0
            assert self._metric("faulty_traces_total") == 0

    @invariant()
    @precondition(lambda self: hasattr(self, "traces"))
    def each_change_is_in_the_table(self) -> None:
        """Hold the changes of states against the documentation."""
        assert self.traces.walked <= KNOWN, self.traces.walked - KNOWN

    @invariant()
    def no_request_is_counted_twice(self) -> None:
        """Hold what metrics and objectives count."""
        assert len(self.counted) == len(set(self.counted))

    def teardown(self) -> None:
        """Let everything come to its end, and hold the ledgers against what was sent."""
        if not hasattr(self, "store"):
            return
        self.store.fails.clear()
        self.store.meanwhile = lambda: None
        self._until_quiet(lambda: self._metric("spans_open") == 0)
        self.each_span_has_one_place()
        for trace_id, sent in self.sent.items():
            found = self.store.request(trace_id, None)
            if sent.has_root:
                assert found is not None, trace_id
                decode_ms = found.ledger.get(Stage.DECODE, 0) / MS
                known = sent.decode_ms(sent.known)
                assert sent.decode_ms(sent.in_time) <= decode_ms <= known, trace_id
        self.pipeline.close()
        assert self.pipeline.left_fault is None
        self.store.close()
        self.folder.cleanup()

    def _until_quiet(self, is_quiet: Callable[[], bool]) -> None:
        for _ in range(12):
            self.commit()
            self.clock.move_s(40)
            self.pipeline.step()
            self.pipeline.look_after()
            if is_quiet():
                return
        raise AssertionError("traces are never attributed")

    def _metric(self, name: str) -> float | None:
        return self.telemetry.registry.get_sample_value(f"latencytrace_service_{name}")


TestWalk = Walk.TestCase
TestWalk.settings = settings(stateful_step_count=30)


def test_spans_whose_commit_is_under_way_as_their_trace_grows_old_outlive_a_kill() -> None:
    walk, trace_id = Walk(), TRACES[0]
    walk.begin(held_bytes=1 << 20, most=1000)
    walk.arrive(trace_id, [0, 1])
    walk.commit()
    walk.arrive(trace_id, [2])
    walk.begin_commit()
    walk.step(301.0)
    walk.end_commit()
    walk.kill()
    walk.teardown()

    assert walk.sent[trace_id].decode_ms(walk.sent[trace_id].in_time) == 10
