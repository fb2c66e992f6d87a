"""Answers from rollups: they count what was written, whatever happened to it since."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from pathlib import Path

import numpy as np
import pytest

from latencytrace.errors import StoreError
from latencytrace.model import Breakdown, FirstTokenOf, Request, RequestStatus, Segment, Stage
from latencytrace.model.cohorts.breakdown import WorkAfter
from latencytrace.model.cohorts.request_columns import DurationBand
from latencytrace.model.detail import TraceDetail
from latencytrace.service import plain_answers
from latencytrace.service.clock import now_ns
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql.counting import ANY_WEIGHT
from latencytrace.service.sql.questions import BY_SEGMENTS, place
from latencytrace.service.sql.rollups import ERROR_RATIO, WINDOW_S, WINDOWS_BETWEEN
from latencytrace.service.sql.tables import DERIVED, REQUESTS, ROLLUPS, UUIDS, WINDOWS
from latencytrace.service.sql_store import reading, rollups
from latencytrace.service.store import Order, Table
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.made_requests import made_request
from tests.support.fakes.contracts import FakeClock
from tests.support.few import few
from tests.support.tables.ledger_tables import write

BEGAN_NS = 1_763_690_100 * 10**9  # where a window begins
WINDOW_NS = WINDOW_S * 10**9
DAY_NS = 86_400 * 10**9
ALWAYS = -1  # as the number of requests up to which they are read one by one
COHORTS = [
    Cohort(),
    Cohort(service="rag"),
    Cohort(service="rag", route="GET /health"),
    Cohort(service="search", status="failed"),
    Cohort(model="llama", version="2"),
    Cohort(detail=TraceDetail.CONTROL),
    Cohort(service="rag", detail=TraceDetail.NO_INTERVALS),
    Cohort(detail=TraceDetail.FULL, route="POST /chat"),
    Cohort(instance="rag-2", since_ns=BEGAN_NS + 2 * WINDOW_NS, until_ns=BEGAN_NS + 7 * WINDOW_NS),
    Cohort(since_ns=BEGAN_NS + 10**11, until_ns=BEGAN_NS + 6 * WINDOW_NS + 1),
    Cohort(since_ns=BEGAN_NS + WINDOW_NS // 2, until_ns=BEGAN_NS + WINDOW_NS // 2 + 10**9),
    Cohort(since_ns=BEGAN_NS + 100 * DAY_NS),
]


def some_request(chance: random.Random, start_ns: int) -> Request:
    """A request of any kind."""
    stages = {
        stage: chance.choice([1, chance.randrange(1, 10**6), chance.randrange(1, 10**11)])
        for stage in chance.sample([*Stage, *[Stage.APPLICATION] * 9], chance.randint(0, 5))
    }
    made = made_request(duration_ns=0) if not stages else made_request(stages=stages)
    return replace(
        made,
        trace_id=f"{chance.getrandbits(128):032x}",
        start_ns=start_ns,
        ledger={stage: length_ns for stage, length_ns in made.ledger.items() if length_ns},
        segments=tuple(chain.from_iterable(in_pieces(chance, one) for one in made.segments)),
        service=chance.choice(["rag", "search"]),
        instance=chance.choice([None, "rag-1", "rag-2"]),
        version=chance.choice([None, "1", "2"]),
        route=chance.choice(["POST /chat", "GET /health", "load"]),
        model=chance.choice([None, "llama"]),
        status=chance.choice(list(RequestStatus)),
        outermost=chance.random() < 0.8,
        health=chance.random() < 0.1,
        startup=chance.random() < 0.1,
        detail=chance.choice([TraceDetail.FULL] * 6 + list(TraceDetail)),
        time_to_first_token_ns=chance.choice([None, 0, chance.randrange(10**9)]),
        time_to_first_token_of=chance.choice([None, *FirstTokenOf]),
        time_per_output_token_ns=chance.choice([None, 0, chance.randrange(1, 10**8)]),
        after={
            stage: chance.randrange(1, 10**10)
            for stage in chance.sample([*Stage], chance.choice([0, 0, 2]))
        },
    )


def in_pieces(chance: random.Random, segment: Segment) -> Iterator[Segment]:
    """A segment, or several by names of the user's own where it is of his spans."""
    if segment.stage not in BY_SEGMENTS:
        yield segment
        return
    within = range(segment.start_ns + 1, segment.end_ns)
    cuts = sorted(chance.sample(within, min(len(within), 3)))
    for start_ns, end_ns in pairwise([segment.start_ns, *cuts, segment.end_ns]):
        name = f"own stage {chance.randrange(12)}"
        yield replace(segment, start_ns=start_ns, end_ns=end_ns, name=name)


def in_column(requests: Iterable[Request]) -> list[Request]:
    """Requests with starts as a signed column holds them."""
    return [
        replace(request, start_ns=(request.start_ns + 2**63) % 2**64 - 2**63)
        for request in requests
    ]


class Written:
    """A store, and beside it what it should hold."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.weights = [1]  # that requests have
        self.clock = FakeClock(BEGAN_NS + DAY_NS)
        self._folder = folder
        self.store = self._open()
        self.held: dict[tuple[str, str], tuple[Request, int]] = {}  # and when it was written
        self._age_ns = 5 * DAY_NS

    def _open(self) -> ChdbStore:
        return ChdbStore.open(self._folder, self.clock, ALWAYS)

    def write(self, requests: list[Request], withdrawn: dict[tuple[str, str], int]) -> None:
        """Write requests, as if some time ago, and withdraw others."""
        self._age_ns -= DAY_NS // 5  # of some days, one after the other
        age_ns = max(self._age_ns, 0)
        at_ns = write(self.store, requests, [], withdrawn, age_ns).at_ns
        for request in requests:
            self.held[request.trace_id, request.span_id] = (request, at_ns)
        for key in withdrawn:
            self.held.pop(key, None)

    def add(self) -> None:
        """Write new requests."""
        starts = [BEGAN_NS + self.chance.randrange(8 * WINDOW_NS) for _ in range(20)]
        starts += [
            self.chance.choice([0, 2**63 - 2**40, 2**64 - 5, BEGAN_NS, BEGAN_NS + WINDOW_NS])
        ]
        self.write([self._weighted(some_request(self.chance, one)) for one in starts], {})

    def _weighted(self, request: Request) -> Request:
        few = len(self.weights) == 1
        return replace(request, weight=1 if few else self.chance.choice(self.weights))

    def _some(self, number: int) -> list[Request]:
        held = [request for request, _ in self.held.values()]
        return self.chance.sample(held, min(number, len(held)))

    def revise(self) -> None:
        """Write requests again: changed, elsewhere, or as they are."""
        again = []
        for one in self._some(6):
            moved_ns = self.chance.choice([0, 0, 1, WINDOW_NS, -3 * WINDOW_NS])
            new = self._weighted(some_request(self.chance, max(one.start_ns + moved_ns, 0)))
            new = replace(
                new, trace_id=one.trace_id, span_id=one.span_id, revision=one.revision + 1
            )
            again.append(self.chance.choice([new, new, one]))
        self.write(again, {})

    def withdraw(self) -> None:
        """Withdraw some."""
        self.write([], {(one.trace_id, one.span_id): one.revision for one in self._some(3)})

    def roll_up(self) -> None:
        """Let time pass, and roll up what is due."""
        for _ in range(self.chance.randint(1, 12)):
            self.clock.move_s(61)
            self.store.roll_up()

    def roll_up_all(self) -> None:
        """Let so much time pass that every window is rolled up."""
        for _ in range(30):
            self.clock.move_s(61)
            self.store.roll_up()

    def reopen(self) -> None:
        """Open the folder anew."""
        self.store.close()
        self.store = self._open()

    def merge(self) -> None:
        """Have the engine merge rows, as it does by itself."""
        self.store._assembler.query("OPTIMIZE TABLE latencytrace.requests", "Null")

    def drop(self) -> None:
        """Drop the oldest day, unless it is today."""
        days = [one for one in self.store.partitions() if one.table is Table.REQUESTS]
        oldest = min(days, key=lambda one: one.since_ns, default=None)
        if oldest is None or oldest.until_ns > now_ns():
            return
        self.store.drop(oldest)
        self.held = {
            key: (request, at_ns)
            for key, (request, at_ns) in self.held.items()
            if not oldest.since_ns <= at_ns < oldest.until_ns
        }

    def compare(self) -> None:
        """Hold the answers against what was written."""
        requests = in_column(request for request, _ in self.held.values())
        for cohort in self.chance.sample(COHORTS, 2):
            found = self.store.breakdown(cohort)
            exact = plain_answers.breakdown(cohort, requests)
            assert_same(found, exact, cohort, between=len(self.weights) == 1)
            self._compare_quantiles(found, cohort, requests)
            routes = self.store.breakdowns(cohort, 3)
            plainly = plain_answers.breakdowns(cohort, requests, 3)
            assert routes.route_count == plainly.route_count
            assert list(routes.routes) == list(plainly.routes)
            for route, one in routes.routes.items():
                assert_same(one, plainly.routes[route], route, between=len(self.weights) == 1)
        counted = plain_answers.counted(cohort, requests)
        explained = [one for one in counted if plain_answers.has_stages(one, cohort)]
        lasted = self.store.durations(cohort)
        weights = [1] * len(lasted) if lasted.weight is None else lasted.weight.tolist()
        assert sorted(zip(lasted.ns.tolist(), weights, strict=True)) == sorted(
            (one.duration_ns, one.weight) for one in explained
        )
        assert self.store.count(cohort) == len(counted)
        for order in Order:
            listed = self.store.requests(cohort, order, 7)
            sent = (replace(one, start_ns=one.start_ns % 2**64) for one in counted)
            first = sorted(place(one, order) for one in sent)[:7]
            assert [place(one, order) for one in listed] == first, (order, cohort)

    def _compare_quantiles(
        self, found: Breakdown, cohort: Cohort, requests: Iterable[Request]
    ) -> None:
        """Hold quantiles against those of each request repeated as often as its weight says."""
        counted = plain_answers.counted(cohort, requests)
        explained = [one for one in counted if plain_answers.has_stages(one, cohort)]
        if found.duration_ns is None:
            assert not explained
            return
        lasted = [one.duration_ns for one in explained]
        each = np.repeat(np.array(lasted, np.float64), [one.weight for one in explained])
        for level, ours in ((0.5, found.duration_ns.p50), (0.99, found.duration_ns.p99)):
            low = np.quantile(each, level, method="lower")
            high = np.quantile(each, level, method="higher")
            assert low * (1 - ERROR_RATIO) - 1 <= ours <= high * (1 + ERROR_RATIO) + 1


def assert_same(
    found: Breakdown, exact: Breakdown, about: object, *, between: bool = True
) -> None:
    """Hold a breakdown against an exact one: what it counts is equal, quantiles are near.

    Args:
        found: By rollups, maybe.
        exact: By going over the requests.
        about: Said if they differ.
        between: Quantiles are between two values in both; of few requests that stand for many
            they are not.
    """
    assert found.requests == exact.requests, about
    for name in (
        "first_tokens_of_model", "health_left_out", "startup_left_out", "unsure_left_out",
        "reduced_detail_left_out", "reduced_requests", "max_concurrency",
    ):  # fmt: skip
        assert getattr(found, name) == getattr(exact, name), (name, about)
    assert_near(found.attributed_ratio, exact.attributed_ratio, 0)
    assert_near(found.output_tokens_per_second, exact.output_tokens_per_second, 0)
    assert [one.stage for one in found.stages] == [one.stage for one in exact.stages]
    for stage, expected in zip(found.stages, exact.stages, strict=True):
        assert stage.requests == expected.requests
        assert_near(stage.mean_ns, expected.mean_ns, 0)
        assert_near(stage.share_ratio, expected.share_ratio, 0)
        assert [(part.name, part.requests) for part in stage.parts] == [
            (part.name, part.requests) for part in expected.parts
        ]
        for level in ("p50_ns", "p95_ns", "p99_ns") if between else ():
            assert_near(getattr(stage, level), getattr(expected, level))
    assert_same_after(found.after, exact.after, between=between)
    for name in ("duration_ns", "time_to_first_token_ns", "time_per_output_token_ns"):
        ours, theirs = getattr(found, name), getattr(exact, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert_near(ours.mean, theirs.mean, 0)
            for level in ("p50", "p90", "p95", "p99", "p999") if between else ():
                assert_near(getattr(ours, level), getattr(theirs, level))


def assert_same_after(found: WorkAfter | None, exact: WorkAfter | None, *, between: bool) -> None:
    if found is None or exact is None:
        assert found == exact
        return
    assert found.requests == exact.requests
    assert_near(found.mean_ns, exact.mean_ns, 0)
    assert dict(found.stages) == pytest.approx(dict(exact.stages))
    for level in ("p50_ns", "p95_ns", "p99_ns") if between else ():
        assert_near(getattr(found, level), getattr(exact, level))


def assert_near(
    found: float | None, exact: float | None, error_ratio: float = ERROR_RATIO
) -> None:
    if exact is None:
        assert found is None
    else:
        assert found == pytest.approx(exact, rel=error_ratio + 1e-9, abs=1e-9)


DOINGS: list[Callable[[Written], None]] = [
    Written.add, Written.add, Written.revise, Written.revise, Written.withdraw, Written.roll_up,
    Written.roll_up, Written.roll_up, Written.merge, Written.reopen, Written.drop,
]  # fmt: skip


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[int], Written]]:
    """Open a store whose doings follow from a number."""
    made: list[Written] = []

    def make_one(seed: int) -> Written:
        made.append(Written(tmp_path / "data", seed))
        return made[-1]

    yield make_one
    for one in made:
        one.store.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", few(1, range(3)))
def test_a_breakdown_counts_what_was_written_whatever_was_revised_moved_or_dropped(
    make: Callable[[int], Written], seed: int
) -> None:
    written = make(seed)
    written.add()

    for _ in range(9):
        written.chance.choice(DOINGS)(written)
        written.compare()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 6))
def test_requests_of_senders_that_sample_count_as_many_as_they_stand_for(
    make: Callable[[int], Written], seed: int
) -> None:
    written = make(seed)
    written.add()
    written.roll_up()
    written.weights = [1, 1, 7, 1000]  # the others sample from now on
    written.add()

    for _ in range(9):
        written.chance.choice(DOINGS)(written)
        written.compare()


@pytest.fixture
def rolled(make: Callable[[int], Written]) -> Written:
    """Some windows, all of them rolled up."""
    written = make(1)
    written.add()
    written.add()
    written.roll_up_all()
    return written


def passes(store: ChdbStore) -> int:
    """How many windows are rolled up."""
    answer = store._assembler.query(
        "SELECT uniqExact(Window) FROM latencytrace.rollup_windows", "TSV"
    )
    return int(answer)


def told(store: ChdbStore, sql: str) -> None:
    store._assembler.query(sql, "Null")


def test_rollups_answer_alone_where_windows_are_whole(rolled: Written) -> None:
    whole = Cohort(since_ns=BEGAN_NS, until_ns=BEGAN_NS + 8 * WINDOW_NS)
    before = rolled.store.breakdown(whole)
    told(rolled.store, "TRUNCATE TABLE latencytrace.requests")

    after = rolled.store.breakdown(whole)

    assert passes(rolled.store) == 8
    assert after.requests == before.requests > 20
    assert after.stages == before.stages
    assert after.quantile_error_ratio == ERROR_RATIO


def test_few_requests_are_read_one_by_one_and_said_to_be_exact(rolled: Written) -> None:
    rolled.store.close()
    rolled.store = ChdbStore.open(rolled._folder, rolled.clock)

    found = rolled.store.breakdown(Cohort())

    exact = plain_answers.breakdown(Cohort(), rolled.store.of_service(None))
    assert found.quantile_error_ratio == 0
    assert found.duration_ns == exact.duration_ns


def test_a_window_that_is_written_to_waits_until_it_is_quiet(
    make: Callable[[int], Written],
) -> None:
    written = make(2)
    written.clock.now_ns = BEGAN_NS + WINDOW_NS - 10**9
    written.write([some_request(written.chance, BEGAN_NS)], {})
    steps = []
    for seconds in (1, 58, 30, 30):
        written.clock.move_s(seconds)
        written.store.roll_up()
        steps.append(passes(written.store))

    assert steps == [0, 0, 1, 1]


def test_a_window_of_long_ago_waits_until_it_is_quiet_too(make: Callable[[int], Written]) -> None:
    written = make(2)
    written.write([some_request(written.chance, BEGAN_NS)], {})
    steps = []
    for seconds in (1, 58, 2):
        written.clock.move_s(seconds)
        written.store.roll_up()
        steps.append(passes(written.store))

    assert steps == [0, 0, 1]


@pytest.mark.parametrize("remembered", [3, 2])
def test_windows_beyond_those_that_are_remembered_are_read_as_they_were_written(
    make: Callable[[int], Written], monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    written = make(2)
    starts_ns = [BEGAN_NS + number * WINDOW_NS for number in range(3)]
    requests = [
        replace(made_request(), trace_id=f"{number:032x}", start_ns=at)
        for number, at in enumerate([*starts_ns, *starts_ns])
    ]
    written.write(requests[:3], {})
    written.roll_up_all()
    monkeypatch.setattr(rollups, "MOST_CHANGED", remembered)
    written.write(requests[3:], {})

    found = written.store.breakdown(Cohort())

    assert found.requests == len(requests)
    assert found.quantile_error_ratio == (ERROR_RATIO if remembered == 3 else 0)


def test_requests_of_another_time_leave_an_answer_to_rollups(rolled: Written) -> None:
    rolled.write([some_request(rolled.chance, BEGAN_NS + DAY_NS)], {})

    found = rolled.store.breakdown(Cohort(since_ns=BEGAN_NS, until_ns=BEGAN_NS + 8 * WINDOW_NS))

    assert found.quantile_error_ratio == ERROR_RATIO


def test_a_window_that_is_rolled_up_again_counts_its_requests_once(rolled: Written) -> None:
    before = rolled.store.breakdown(Cohort())
    rolled.write([replace(one, revision=one.revision + 1) for one, _ in rolled.held.values()], {})
    rolled.roll_up_all()

    after = rolled.store.breakdown(Cohort())

    assert after.quantile_error_ratio == ERROR_RATIO  # by rollups
    assert after.requests == before.requests > 20


def test_a_request_written_while_a_question_is_answered_counts_once(
    rolled: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [request for request, _ in rolled.held.values() if request.detail.has_stages]
    revised = plain_answers.counted(Cohort(), requests)[0]
    ask = rolled.store._readers.query
    wrote: list[Request] = []

    def slow(sql: str, answer_format: str, parameters: dict[str, object]) -> bytes:
        if "rollup_windows" not in sql and not wrote:
            wrote.append(replace(revised, revision=2))
            rolled.write(wrote, {})
        return ask(sql, answer_format, parameters)

    monkeypatch.setattr(rolled.store._readers, "query", slow)

    durations = rolled.store.durations(Cohort())

    requests = [request for request, _ in rolled.held.values() if request.detail.has_stages]
    assert len(wrote) == 1
    assert len(durations) == len(plain_answers.counted(Cohort(), requests))


@pytest.fixture
def asked(rolled: Written, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that readers ask."""
    ask = rolled.store._readers.query
    found: list[str] = []

    def seen(sql: str, answer_format: str, parameters: dict[str, object]) -> bytes:
        found.append(sql)
        return ask(sql, answer_format, parameters)

    readers, plans = rolled.store._readers, rolled.store._rollups
    for one, name in (
        (readers, "query"), (plans, "_read"), (plans.weights, "_ask")
    ):  # fmt: skip
        monkeypatch.setattr(one, name, seen)
    return found


def test_while_rollups_are_lost_requests_are_read_as_they_were_written(
    rolled: Written, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rolled.store.breakdown(Cohort())
    assert WINDOWS_BETWEEN in asked
    monkeypatch.setattr(rolled.store._rollups, "_lost_parts", lambda: 1)
    asked.clear()

    assert rolled.store.breakdown(Cohort()).requests == before.requests
    assert WINDOWS_BETWEEN not in asked
    assert len(asked) == len({*asked})  # nothing is asked twice


def test_weights_are_looked_for_once_where_no_other_service_writes(
    rolled: Written, asked: list[str]
) -> None:
    rolled.clock.move_s(3600)  # since rolling up asked for them
    rolled.store.breakdown(Cohort())

    assert WINDOWS_BETWEEN in asked
    assert ANY_WEIGHT not in asked


HALF = [DurationBand(share_ratio=0.5)]


@pytest.mark.parametrize("least", [0, 1000])
def test_a_part_is_only_looked_for_where_windows_have_many_requests(
    rolled: Written, asked: list[str], monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(reading, "LEAST_IN_WINDOW", least)

    whole = rolled.store.cohort_columns(Cohort())
    half = rolled.store.cohort_columns(Cohort(), HALF)

    assert 0.2 * len(whole) < len(half) < 0.8 * len(whole)
    assert any("in_part" in sql for sql in asked) == (least == 0)


def test_a_part_is_not_looked_for_where_no_window_is_rolled_up_yet(
    rolled: Written, asked: list[str]
) -> None:
    since_ns = BEGAN_NS + DAY_NS
    rolled.write([some_request(rolled.chance, since_ns + number) for number in range(40)], {})
    asked.clear()

    half = rolled.store.cohort_columns(Cohort(since_ns=since_ns), HALF)

    assert len(half) > 0
    assert not any("in_part" in sql for sql in asked)


@pytest.mark.long
@pytest.mark.parametrize("step", ["request_rollups", "rollup_windows"])
def test_a_pass_that_fails_half_way_is_made_again(
    make: Callable[[int], Written], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    written = make(3)
    written.add()
    written.clock.move_s(DAY_NS / 1e9)
    write = written.store._assembler.query

    def failing(sql: str, answer_format: str, parameters: dict[str, object]) -> bytes:
        if f"INSERT INTO latencytrace.{step}" in sql:
            raise StoreError("no space left")
        return write(sql, answer_format, parameters)

    with monkeypatch.context() as patched:
        patched.setattr(written.store._rollups, "_write", failing)
        with pytest.raises(StoreError, match="no space left"):
            written.store.roll_up()
    written.compare()
    written.roll_up()
    written.compare()


def damage(file: Path) -> None:
    """Flip one bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


@pytest.mark.long
@pytest.mark.parametrize("when", ["at once", "at the next start"])
def test_rollups_that_are_damaged_are_made_anew(rolled: Written, when: str) -> None:
    folder = rolled._folder / "clickhouse" / "store" / UUIDS[ROLLUPS][:3] / UUIDS[ROLLUPS]
    if when == "at the next start":
        rolled.store.close()
    for path in folder.glob("*/data.bin"):
        damage(path)
    if when == "at the next start":
        rolled.store = ChdbStore.open(rolled._folder, rolled.clock, ALWAYS)

    rolled.compare()
    rolled.reopen()
    rolled.compare()
    rolled.roll_up_all()

    rolled.compare()
    assert passes(rolled.store) == 8
    assert rolled.store.damaged_parts() == []


def largest_part(store: ChdbStore) -> Path:
    """Where the engine keeps most of the requests."""
    asked = (
        f"SELECT path FROM system.parts WHERE active AND database || '.' || table = '{REQUESTS}' "  # noqa: S608 - our own name
        "ORDER BY rows DESC LIMIT 1"
    )
    return Path(store._assembler.query(asked, "TSV").decode().strip()) / "data.bin"


def test_windows_are_rolled_up_anew_from_the_requests_that_a_loss_left(rolled: Written) -> None:
    whole = rolled.store.breakdown(Cohort()).requests
    damage(largest_part(rolled.store))
    left = list(rolled.store.of_service(None))  # finds the damage
    rolled.roll_up_all()

    found = rolled.store.breakdown(Cohort())

    assert found.quantile_error_ratio == ERROR_RATIO  # by rollups
    assert 0 < found.requests < whole
    assert found.requests == plain_answers.breakdown(Cohort(), left).requests


@pytest.mark.long
@pytest.mark.parametrize("when", few(1, ["at the next start", "at once"]))
def test_what_is_lost_of_requests_is_counted_no_more(rolled: Written, when: str) -> None:
    whole = rolled.store.breakdown(Cohort()).requests
    part = largest_part(rolled.store)
    if when == "at the next start":
        rolled.store.close()
    damage(part)
    if when == "at the next start":
        rolled.store = ChdbStore.open(rolled._folder, rolled.clock, ALWAYS)
    found = []
    for _ in range(3):
        exact = plain_answers.breakdown(Cohort(), list(rolled.store.of_service(None)))
        found.append((rolled.store.breakdown(Cohort()).requests, exact.requests))
        rolled.reopen()

    assert len(rolled.store.damaged_parts()) == 1
    assert len(set(found)) == 1
    assert found[0][0] == found[0][1] < whole


@pytest.mark.long
def test_a_start_that_is_killed_while_it_drops_rollups_loses_no_count(rolled: Written) -> None:
    told(rolled.store, f"DROP TABLE {DERIVED[0]} SYNC")
    rolled.reopen()

    rolled.compare()
    rolled.roll_up_all()

    rolled.compare()
    assert passes(rolled.store) == 8


@pytest.mark.long
def test_a_folder_from_before_rollups_gets_them(rolled: Written) -> None:
    for table in DERIVED:
        told(rolled.store, f"DROP TABLE {table} SYNC")
    rolled.reopen()

    rolled.compare()
    rolled.roll_up_all()

    rolled.compare()
    assert passes(rolled.store) == 8


@pytest.mark.long
def test_rollups_from_before_stages_were_counted_by_the_users_names_are_made_anew(
    rolled: Written,
) -> None:
    whole = Cohort(since_ns=BEGAN_NS, until_ns=BEGAN_NS + 8 * WINDOW_NS)
    before = rolled.store.breakdown(whole)
    told(rolled.store, f"ALTER TABLE {WINDOWS} DROP COLUMN Named")
    deleted = f"ALTER TABLE {ROLLUPS} DELETE WHERE Measure = 'ApplicationPart'"
    told(rolled.store, f"{deleted} SETTINGS mutations_sync = 2")
    rolled.reopen()

    assert_same(rolled.store.breakdown(whole), before, "from requests")
    rolled.roll_up_all()
    told(rolled.store, f"TRUNCATE TABLE {REQUESTS}")

    after = rolled.store.breakdown(whole)
    assert after.stages == before.stages
    assert any(stage.parts for stage in after.stages if stage.stage is Stage.APPLICATION)


def test_of_very_many_names_rollups_keep_the_longest(make: Callable[[int], Written]) -> None:
    written = make(1)
    pieces = [made_request(stages={Stage.APPLICATION: 100 + number}) for number in range(100)]
    ends = list(accumulate(one.duration_ns for one in pieces))
    segments = [
        replace(one.segments[0], name=f"document {number}", start_ns=end_ns - one.duration_ns)
        for number, (one, end_ns) in enumerate(zip(pieces, ends, strict=True))
    ]
    segments = [replace(one, end_ns=end_ns) for one, end_ns in zip(segments, ends, strict=True)]
    request = made_request(stages={Stage.APPLICATION: ends[-1]}, segments=tuple(segments))
    written.write([replace(request, start_ns=BEGAN_NS + 1)], {})
    written.roll_up_all()

    found = written.store.breakdown(Cohort(since_ns=BEGAN_NS, until_ns=BEGAN_NS + WINDOW_NS))

    (stage,) = found.stages
    assert [part.name for part in stage.parts] == [f"document {99 - place}" for place in range(8)]
    rows = written.store._assembler.query(
        f"SELECT count() FROM {ROLLUPS} WHERE Part != ''",  # noqa: S608 - our own name
        "TSV",
    )
    assert int(rows) == 32


@pytest.mark.parametrize("cohort", few(1, [Cohort(route="POST /chat"), Cohort()]))
def test_requests_without_stages_are_left_out_of_rollups_as_they_are_of_exact_answers(
    rolled: Written, cohort: Cohort
) -> None:
    found = rolled.store.breakdown(cohort)

    requests = list(rolled.store.of_service(None))
    exact = plain_answers.breakdown(cohort, requests)
    assert_same(found, exact, cohort)
    assert found.quantile_error_ratio == ERROR_RATIO
    assert min(found.requests, found.reduced_detail_left_out, found.reduced_requests) > 0
    assert found.reduced_requests < found.requests
    every = sum(
        rolled.store.breakdown(cohort.model_copy(update={"detail": detail})).requests
        for detail in TraceDetail
    )
    assert every == found.requests + found.reduced_detail_left_out


@pytest.mark.long
def test_rollups_from_before_detail_was_kept_answer_as_before(rolled: Written) -> None:
    for table in (ROLLUPS, REQUESTS):
        told(rolled.store, f"ALTER TABLE {table} DROP COLUMN Detail")
    deleted = f"ALTER TABLE {ROLLUPS} DELETE WHERE Measure = 'ReducedRequests'"
    told(rolled.store, f"{deleted} SETTINGS mutations_sync = 2")
    rolled.reopen()
    rolled.held = {
        key: (replace(request, detail=TraceDetail.FULL), at_ns)
        for key, (request, at_ns) in rolled.held.items()
    }

    for cohort in (Cohort(), Cohort(detail=TraceDetail.FULL), Cohort(detail=TraceDetail.CONTROL)):
        exact = plain_answers.breakdown(cohort, rolled.store.of_service(None))
        assert_same(rolled.store.breakdown(cohort), exact, cohort)
        assert exact.reduced_detail_left_out == exact.reduced_requests == 0
    rolled.add()
    rolled.roll_up()
    rolled.compare()


@pytest.mark.long
def test_more_windows_than_are_remembered_are_rolled_up_bit_by_bit(
    make: Callable[[int], Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollups, "MOST_CHANGED", 5)
    written = make(4)
    starts = [BEGAN_NS + number * WINDOW_NS for number in range(12)]
    written.write([some_request(written.chance, one) for one in starts], {})
    written.compare()

    written.roll_up_all()

    written.compare()
    assert passes(written.store) == 12
    written.write([some_request(written.chance, one) for one in starts], {})
    written.compare()


def test_what_is_kept_of_a_day_goes_with_its_requests(rolled: Written) -> None:
    for one in rolled.store.partitions():
        rolled.store.drop(one)

    assert rolled.store.partitions() == []
    assert rolled.store.breakdown(Cohort()).requests == 0


KILLED = """
import random, sys
from pathlib import Path
from tests.service.stores.chdb.test_rollups import Written

written = Written(Path(sys.argv[1]), int(sys.argv[2]))
while True:
    written.add()
    written.revise()
    written.withdraw()
    written.roll_up()
    print(len(written.held), flush=True)
"""


@pytest.mark.long
def test_a_kill_at_any_moment_leaves_no_request_counted_twice(tmp_path: Path) -> None:
    folder, chance = tmp_path / "data", random.Random(5)
    for seed in range(3):
        command = [sys.executable, "-c", KILLED, str(folder), str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            for _ in range(chance.randint(1, 4)):
                assert running.stdout.readline()
            running.kill()

        written = Written(folder, seed)
        requests = in_column(written.store.of_service(None))
        found = [written.store.breakdown(cohort) for cohort in COHORTS]
        written.store.close()
        for breakdown, cohort in zip(found, COHORTS, strict=True):
            assert_same(breakdown, plain_answers.breakdown(cohort, requests), cohort)


def test_the_window_of_a_request_is_the_one_that_the_engine_finds(
    make: Callable[[int], Written],
) -> None:
    edges = (1, BEGAN_NS, 2**32 * 10**9, 2**63)
    starts_ns = {f"{at:032x}": at for edge in edges for at in (edge - 1, edge)}
    written = make(6)
    written.write(
        [replace(made_request(), trace_id=one, start_ns=at) for one, at in starts_ns.items()], {}
    )
    answer = written.store._assembler.query(
        "SELECT TraceId, toUnixTimestamp(toStartOfFiveMinutes(Start)) FROM latencytrace.requests",
        "TSV",
    )

    found = dict(line.split("\t") for line in answer.decode().splitlines())
    for trace_id, start_ns in starts_ns.items():
        windows = rollups.windows_of(np.array([start_ns], np.uint64))
        assert windows == [int(found[trace_id])], start_ns
