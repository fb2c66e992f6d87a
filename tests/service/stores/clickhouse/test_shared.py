"""Several services on one database: each takes up what it wrote itself, and answers for all."""

import itertools
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from latencytrace.errors import StoreError
from latencytrace.service.cohort import Cohort
from latencytrace.service.ledgers.missing_ledgers import (
    FAILED_S,
    MOST_ROOTLESS,
    SPLIT_LOOKS_S,
    TOGETHER_S,
    SplitTraces,
)
from latencytrace.service.store import Store, open_store
from latencytrace.service.stores.clickhouse import server as clickhouse_server
from latencytrace.service.stores.clickhouse.address import ServerAddress
from latencytrace.service.stores.clickhouse.server import Ending, Server, writer_of
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.otlp_messages import columns, one_span, otlp
from tests.support.clickhouse.front import LOSE, ClickHouseFront
from tests.support.servers.command_line import listening
from tests.support.tables.ledger_tables import write

HOUR_NS = 3600 * 10**9
_databases = itertools.count(1)


@pytest.fixture
def url(front: ClickHouseFront) -> str:
    return front.url(f"shared_{next(_databases)}")


@pytest.fixture
def one(url: str, tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(url, tmp_path / "one")) as store:
        yield store


@pytest.fixture
def other(url: str, tmp_path: Path, one: Store) -> Iterator[Store]:
    del one  # it makes the tables
    with closing(open_store(url, tmp_path / "other")) as store:
        yield store


def trace(number: int) -> str:
    return f"{number:032x}"


def test_a_service_takes_up_its_own_traces_alone(one: Store, other: Store) -> None:
    one.insert([columns(otlp(one_span(trace(1))))])
    other.insert([columns(otlp(one_span(trace(2))))])

    assert one.unassembled() == [trace(1)]
    assert other.unassembled() == [trace(2)]


def test_a_trace_that_another_service_wrote_the_ledger_of_is_done(
    one: Store, other: Store
) -> None:
    one.insert([columns(otlp(one_span(trace(1))))], HOUR_NS // 60)
    write(other, [made_request(trace_id=trace(1))], [])

    assert one.unassembled() == []


def test_a_service_looks_for_ledgers_of_its_own_traces_alone(one: Store, other: Store) -> None:
    one.insert([columns(otlp(one_span(trace(1))))])
    other.insert([columns(otlp(one_span(trace(2))))])
    now_ns = time.time_ns()

    found = one.without_ledger(now_ns - HOUR_NS, now_ns + HOUR_NS)

    assert found == [trace(1)]


def test_a_service_counts_what_it_wrote_itself(one: Store, other: Store) -> None:
    write(one, [made_request(trace_id=trace(1))], [])
    write(other, [made_request(trace_id=trace(2))], [])

    assert [request.trace_id for _, request in one.uncounted(0)] == [trace(1)]
    assert [request.trace_id for _, request in other.uncounted(0)] == [trace(2)]


def test_a_request_that_another_service_revised_is_counted_by_nobody_again(
    one: Store, other: Store
) -> None:
    write(one, [made_request(trace_id=trace(1))], [])
    revised = made_request(7, trace_id=trace(1), revision=2)
    write(other, [revised], [], counted=[(revised.trace_id, revised.span_id)])
    until_ns = one.last_written_ns()

    assert other.uncounted(until_ns) == []
    assert [one.duration_ns for one in one.written([trace(1)])] == [7]


def test_what_is_known_and_when_was_last_written_are_a_service_s_own(
    url: str, one: Store, other: Store, tmp_path: Path
) -> None:
    write(one, [made_request(trace_id=trace(1))], [])
    write(other, [made_request(trace_id=trace(2))], [], age_ns=0)

    known = [ids.tolist() for ids in one.known_traces()]
    written_ns = one.last_written_ns()
    one.close()
    with closing(open_store(url, tmp_path / "one")) as again:
        assert again.last_written_ns() == written_ns

    assert known == [[[0, 1]]]


def test_questions_are_answered_for_all(one: Store, other: Store) -> None:
    write(one, [made_request(trace_id=trace(1))], [])
    write(other, [made_request(trace_id=trace(2))], [])

    assert one.count(Cohort(since_ns=0)) == other.count(Cohort(since_ns=0)) == 2


def test_a_trace_is_elsewhere_too_whichever_table_has_it(one: Store, other: Store) -> None:
    block = columns(otlp(*(one_span(trace(number)) for number in (1, 2, 3))))
    one.insert([block])
    other.insert([columns(otlp(one_span(trace(1))))])
    other.keep([(columns(otlp(one_span(trace(2)))), np.array([0]))])

    found = one.elsewhere([trace(number) for number in (1, 2, 3, 4)])

    assert sorted(found) == [trace(1), trace(2)]


def test_spans_that_are_copied_later_are_still_their_service_s(one: Store, other: Store) -> None:
    one.insert([columns(otlp(one_span(trace(1))))])
    write(one, [made_request(trace_id=trace(1))], [trace(1)])
    one.keep_noted()

    assert one.elsewhere([trace(1)]) == []
    assert other.elsewhere([trace(1)]) == [trace(1)]


def test_traces_without_a_root_are_found_after_a_restart(one: Store, other: Store) -> None:
    one.insert([columns(otlp(one_span(trace(1), parent_id="f" * 16)))])
    one.insert([columns(otlp(one_span(trace(2))))])
    one.insert([columns(otlp(one_span(trace(3), "2" * 16, parent_id="f" * 16)))], 2 * HOUR_NS)
    other.insert([columns(otlp(one_span(trace(2), "3" * 16, parent_id="f" * 16)))])

    assert one.rootless_lately() == [trace(1)]
    assert other.rootless_lately() == [trace(2)]


def test_a_service_keeps_its_id_and_refuses_another_text_in_its_place(tmp_path: Path) -> None:
    first = writer_of(tmp_path)

    assert writer_of(tmp_path) == first
    (tmp_path / "writer").write_text("'; DROP TABLE x\n")
    with pytest.raises(StoreError, match="holds no id of a service"):
        writer_of(tmp_path)


# Looking for what is elsewhere


class Elsewhere:
    """A store that is asked, and a clock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.there: set[str] = set()
        self.asked: list[set[str]] = []
        self.fails = False

    def elsewhere(self, trace_ids: set[str]) -> set[str]:
        """See `Store.elsewhere`."""
        if self.fails:
            raise StoreError("away")
        self.asked.append(set(trace_ids))
        return self.there & set(trace_ids)

    def now_ns(self) -> int:
        """Return the time."""
        return round(self.now_s * 1e9)


def looking(store: Elsewhere) -> SplitTraces:
    return SplitTraces(store, store.now_ns)  # type: ignore[arg-type] # all that is asked of it


def test_a_trace_without_a_root_is_looked_for_twice() -> None:
    store = Elsewhere()
    split = looking(store)
    split.rootless({"a", "b"})

    at_once = split.found(lambda _: False)
    store.now_s, store.there = SPLIT_LOOKS_S[0], {"a"}
    first = split.found(lambda _: False)
    store.now_s, store.there = sum(SPLIT_LOOKS_S), {"a", "b"}
    second = split.found(lambda _: False)
    store.now_s *= 10
    later = split.found(lambda _: False)

    assert [at_once, first, second, later] == [[], ["a"], ["b"], []]
    assert store.asked == [{"a", "b"}, {"b"}]
    assert split.count == 2


def test_traces_that_come_close_together_are_looked_for_together() -> None:
    store = Elsewhere()
    split = looking(store)
    for number in range(100):
        store.now_s = number * TOGETHER_S / 200
        split.rootless({f"{number}"})
    store.now_s += SPLIT_LOOKS_S[0]
    split.found(lambda _: False)

    assert sorted(map(len, store.asked)) == [100]


def test_traces_that_go_on_coming_do_not_put_off_the_first() -> None:
    store = Elsewhere()
    split = looking(store)
    for number in range(100):
        store.now_s = number * TOGETHER_S / 2
        split.rootless({f"{number}"})
        split.found(lambda _: False)

    assert "0" in set().union(*store.asked)


def test_what_is_open_again_is_not_attributed_twice() -> None:
    store = Elsewhere()
    split = looking(store)
    split.rootless({"a"})
    store.now_s, store.there = SPLIT_LOOKS_S[0], {"a"}

    assert split.found(lambda _: True) == []
    assert split.count == 0


def test_a_store_that_fails_is_asked_again() -> None:
    store = Elsewhere()
    split = looking(store)
    split.rootless({"a"})
    store.now_s, store.there, store.fails = SPLIT_LOOKS_S[0], {"a"}, True
    with pytest.raises(StoreError):
        split.found(lambda _: False)
    store.fails = False
    at_once = split.found(lambda _: False)  # else the log would say nothing else
    store.now_s += FAILED_S

    assert at_once == []
    assert split.found(lambda _: False) == ["a"]


def test_no_more_traces_are_remembered_than_there_is_room_for() -> None:
    store = Elsewhere()
    split = looking(store)
    for number in range(5):
        store.now_s = number * TOGETHER_S
        split.rootless({f"{number}-{place}" for place in range(MOST_ROOTLESS // 4)})
    store.now_s += SPLIT_LOOKS_S[0]
    split.found(lambda _: False)

    assert sum(map(len, store.asked)) <= MOST_ROOTLESS


def test_a_trace_whose_root_nobody_has_is_looked_for_twice() -> None:
    store = Elsewhere()
    split = looking(store)
    store.there = {"a"}
    split.rootless({"a"})
    found = []
    for second in range(1, 1000):
        store.now_s = second
        if mended := split.found(lambda _: False):
            found.append(second)
            split.rootless(mended)  # attributed again, and its root has not come

    first_s = round(SPLIT_LOOKS_S[0])
    assert found == [first_s, first_s + round(SPLIT_LOOKS_S[1])]
    assert len(store.asked) == split.count == len(SPLIT_LOOKS_S)


def test_of_mended_traces_the_oldest_are_forgotten() -> None:
    store = Elsewhere()
    split = looking(store)
    store.there = {"a", *(f"{place}" for place in range(MOST_ROOTLESS))}
    split.rootless({"a"})
    store.now_s = SPLIT_LOOKS_S[0]
    split.found(lambda _: False)
    split.rootless(store.there - {"a"})
    store.now_s *= 2
    split.found(lambda _: False)
    store.asked.clear()
    split.rootless({"a"})
    store.now_s *= 2
    split.found(lambda _: False)

    assert store.asked == [{"a"}]  # as one that was never looked at


def test_traces_that_come_in_several_posts_are_remembered_once() -> None:
    store = Elsewhere()
    split = looking(store)
    for _ in range(4):
        split.rootless({f"{place}" for place in range(MOST_ROOTLESS // 2)})
    for look_s in SPLIT_LOOKS_S:
        store.now_s += look_s + TOGETHER_S
        split.found(lambda _: False)
    store.there = {f"new {number}" for number in range(5)}
    for one in sorted(store.there):
        store.now_s += 2 * TOGETHER_S
        split.rootless({one})
    store.now_s += SPLIT_LOOKS_S[0]

    assert set(split.found(lambda _: False)) == store.there


# The hour of a block, and the end


def test_a_lost_answer_across_a_full_hour_keeps_a_block_once(
    front: ClickHouseFront, one: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_ns = time.time_ns() // HOUR_NS * HOUR_NS
    clock = iter([full_ns - 10**6, full_ns - 10**6, full_ns + 10**9, full_ns + 2 * 10**9])
    monkeypatch.setattr(clickhouse_server, "now_ns", lambda: next(clock))
    front.told(LOSE)

    one.insert([columns(otlp(one_span(trace(1))))])

    assert one.arrived_counts([trace(1)]) == {trace(1): 1}


def test_a_server_that_hangs_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clickhouse_server, "_AT_THE_END_S", 0.2)
    with listening() as address, (tmp_path / "lock").open("w") as lock:
        server = Server(ServerAddress.parse(address.replace("http:", "clickhouse:")), lock)
        server.hurry()
        with pytest.raises(StoreError, match="does not answer"):
            server.connect().query("SELECT 1", "TSV")  # which may take two minutes otherwise


def test_after_one_question_without_an_answer_the_end_waits_less() -> None:
    ending = Ending()
    usual = clickhouse_server._INSERT

    before = ending.limit(usual)
    ending.began.set()
    first = ending.limit(usual)
    ending.has_failed = True
    second = ending.limit(usual)

    assert before is usual
    assert usual.read > first.read > second.read  # type: ignore[operator] # all have one
    assert ending.wait(0)
