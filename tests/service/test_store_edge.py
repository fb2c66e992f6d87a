"""Whatever a store's engine raises: it is tried again, it is said, and nothing is lost."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self, TypeVar
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latencytrace.errors import NotFoundError, StoreError
from latencytrace.service.clock import now_ns
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.ledgers.open_traces import Bounds, OpenTraces
from latencytrace.service.ledgers.pipeline import HOLD_S, PACE_S, Pipeline
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.sql.tables import Target
from latencytrace.service.sql_store.engine import EngineConnection
from latencytrace.service.sql_store.pending_copies import TO_KEEP, NotedTraces
from latencytrace.service.sql_store.rollups import EXACT_REQUESTS
from latencytrace.service.store import StoreEdge
from latencytrace.service.stores.chdb.engine import Engine
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.spans.otlp_messages import decoding, root_lately
from tests.support.builders.spans.otlp_messages import otlp as encoded
from tests.support.fakes.contracts import FakeClock

ERRORS: Final = (
    AttributeError("'_ChdbResult' object has no attribute 'rows_written'"), KeyError("rows"),
    RuntimeError("the engine is gone"), OSError("no such device"), MemoryError(),
    TypeError("an integer is required"), sqlite3.OperationalError("database is locked"),
    StopIteration(), AssertionError(), Exception("anything"), StoreError("the disk is full"),
)  # fmt: skip
INSERTS: Final = ("span_arrivals", "spans", "requests")  # by table
QUESTIONS: Final = "questions"
ANSWERS: Final = "answers"  # that cannot be read
T = TypeVar("T")


class FaultyConnection:
    """A connection that fails where it is told to."""

    def __init__(self, connection: EngineConnection, engine: "FaultyEngine") -> None:
        self._connection = connection
        self._engine = engine

    def query(
        self, sql: str, answer_format: str, parameters: Mapping[str, object] | None = None
    ) -> bytes:
        """Ask, or fail, before or after it."""
        asked = lambda: self._connection.query(sql, answer_format, parameters)  # noqa: E731
        answer = self._engine.done(QUESTIONS, asked)
        return b"\xff[" if self._engine.hits(ANSWERS) else answer

    def insert(
        self,
        target: Target,
        block: bytes,
        rows: int,
        arrived_ms: int | None = None,
        token: str = "",
    ) -> None:
        """Insert, or fail, before or after it."""
        insert = lambda: self._connection.insert(target, block, rows, arrived_ms, token)  # noqa: E731
        self._engine.done(target.table.partition(".")[2], insert)


class FaultyEngine:
    """The embedded engine, which fails where it is told to."""

    writer = ""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.where: frozenset[str] = frozenset()
        self.error: Exception = ERRORS[0]
        self.keeps = False  # what it fails at
        self.count = 0  # failures
        self.failed: Callable[[], object] = lambda: None
        self.damaged_parts, self.lost_parts = engine.damaged_parts, engine.lost_parts
        self.hurry, self.close = engine.hurry, engine.close

    def connect(self, **settings: int) -> FaultyConnection:
        """A connection that fails."""
        return FaultyConnection(self._engine.connect(**settings), self)

    def hits(self, kind: str) -> bool:
        """Tell whether such a call fails, and count it."""
        self.count += kind in self.where
        return kind in self.where

    def done(self, kind: str, call: Callable[[], T]) -> T:
        """Do something, or fail."""
        if not self.hits(kind):
            return call()
        if self.keeps:
            call()
        self.failed()
        raise self.error


class Rig:
    """A pipeline over an engine that fails; its own thread does not run."""

    def __init__(self, folder: Path, max_held_bytes: int) -> None:
        self.engine = FaultyEngine(Engine.open(folder / "store"))
        self.store = ChdbStore(self.engine, NotedTraces(folder / TO_KEEP), now_ns, EXACT_REQUESTS)
        self.clock = FakeClock()
        self.telemetry = Telemetry()
        self.pipeline = Pipeline(
            self.store,
            self.telemetry,
            self.clock,
            journal=Journal(folder / "journal"),
            traces=OpenTraces(self.clock, Bounds(held_bytes=max_held_bytes)),
        )
        self.sent: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.where = frozenset()
        self.pipeline.close()
        self.store.close()

    def commit(self) -> "Rig":
        """Have the committer run."""
        committer = self.pipeline._committer
        committer.set_interval(10**9, round(HOLD_S * 1e9))
        committer.start()
        return self

    def send(self) -> None:
        """Send a trace of two spans, and wait until it is acknowledged."""
        span = root_lately(uuid4().hex)
        spans = encoded(span, decoding(span, "b" * 16, 0, 60))
        self.pipeline.submit(otlp.check(spans, None, None)).result(timeout=20)
        self.sent.append(span.trace_id)

    def flush(self) -> None:
        """Commit what waits, if the engine takes it.

        A commit that fails meanwhile is tried again after a second, which must pass.
        """
        self.clock.move_s(2)
        done = threading.Event()
        passing = threading.Thread(target=self._pass_time, args=(done,))
        passing.start()
        try:
            self.pipeline._committer.flush()
        except StoreError:
            assert self.metric("store_failing") == 1
        finally:
            done.set()
            passing.join()

    def _pass_time(self, done: threading.Event) -> None:
        while not done.wait(0.05):
            self.clock.move_s(2)

    def step(self) -> None:
        """Attribute what is due, and look after the rest."""
        self.clock.move_s(2)
        before = self.engine.count
        self.pipeline.step()
        if self.engine.count > before:
            assert self.metric("store_failing") == 1
        self.pipeline.look_after()

    def metric(self, name: str, **labels: str) -> float | None:
        """One of the service's own metrics."""
        value = self.telemetry.registry.get_sample_value
        assert value("latencytrace_service_spans_unaccounted") == 0
        return value(f"latencytrace_service_{name}", labels)


class Twice:
    """Says when it was called twice."""

    def __init__(self) -> None:
        self.happened = threading.Event()
        self._count = 0

    def __call__(self) -> None:
        """Count."""
        self._count += 1
        if self._count == 2:
            self.happened.set()


class Pauses:
    """Notes pauses that are over at once, and ends after some.

    Args:
        clock: Shows a minute more after each.
    """

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.asked_s: list[float] = []

    def wait(self, pause_s: float) -> bool:
        """Note it."""
        self.asked_s.append(pause_s)
        self._clock.move_s(60)
        return len(self.asked_s) > 5

    def is_set(self) -> bool:
        """Not before the last pause."""
        return False

    def set(self) -> None:
        """Nothing: it is over."""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Rig]:
    with Rig(tmp_path, 1 << 20) as rig:
        yield rig


faults = st.fixed_dictionaries(
    {
        "where": st.frozensets(st.sampled_from((*INSERTS, QUESTIONS, ANSWERS)), min_size=1),
        "error": st.sampled_from(ERRORS),
        "keeps": st.booleans(),
    }
)


@pytest.mark.long
@given(st.lists(faults, min_size=1, max_size=3), st.sampled_from((0, 1 << 20)))
@settings(max_examples=8)
def test_no_exception_of_an_engine_loses_a_span_or_goes_unsaid(
    walk: list[dict[str, object]], max_held_bytes: int
) -> None:
    with TemporaryDirectory() as folder, Rig(Path(folder), max_held_bytes).commit() as rig:
        for fault in walk:
            rig.send()
            vars(rig.engine).update(fault)
            rig.step()
            rig.send()
            rig.flush()
            rig.step()
        rig.engine.where = frozenset()
        for _ in range(3):
            rig.flush()
            rig.step()

        assert {one for one in rig.sent if rig.store.request(one, None)} == set(rig.sent)
        assert rig.metric("spans_attributed_total") == 2 * len(rig.sent)
        assert rig.metric("spans_open") == 0
        assert rig.metric("faulty_traces_total") == 0
        assert rig.metric("store_failing") == 0


def test_a_service_whose_engine_fails_at_ledgers_is_not_ready_and_says_why(running: Rig) -> None:
    running.engine.where = frozenset(INSERTS)
    running.pipeline.start()
    twice = Twice()
    running.engine.failed = twice
    running.send()
    running.clock.move_s(60)
    twice.happened.wait(timeout=60)

    assert "has no attribute 'rows_written'" in (running.pipeline.fault or "")


def test_what_failed_is_tried_again_with_a_pause(running: Rig) -> None:
    running.commit()
    running.engine.where = frozenset(INSERTS)
    running.engine.failed = lambda: running.clock.move_s(5)  # so long it takes
    running.send()
    pauses = Pauses(running.clock)
    running.pipeline._stopping = pauses  # type: ignore[assignment]

    running.pipeline._run()

    assert running.engine.count > 0
    assert min(pauses.asked_s[-3:]) >= PACE_S


@pytest.mark.parametrize("kind", ["method", "iteration"])
def test_an_error_of_ours_goes_through_and_another_becomes_a_store_error(kind: str) -> None:
    class Asked(StoreEdge):
        def of(self, error: Exception) -> Iterator[int]:
            if kind == "method":
                raise error
            return self._each(error)

        def _each(self, error: Exception) -> Iterator[int]:
            yield 1
            raise error

    with pytest.raises(NotFoundError, match="no such trace"):
        list(Asked().of(NotFoundError("no such trace")))
    with pytest.raises(StoreError, match=r"`of`: KeyError\('x'\) \(test_store_edge.py:\d+\)"):
        list(Asked().of(KeyError("x")))
