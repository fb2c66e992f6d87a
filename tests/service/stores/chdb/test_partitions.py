"""Days that are dropped from the embedded store, and a death in the middle of it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from latencytrace.service.clock import now_ns
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql.tables import ARRIVALS, HAS_TTL, REQUESTS, SPANS
from latencytrace.service.storage.retention import DAY_NS, SURE_S, Limits, Retention
from latencytrace.service.store import Order, Table
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.otlp_messages import columns, one_span, otlp
from tests.support.fakes.contracts import FakeClock
from tests.support.few import few
from tests.support.tables.ledger_tables import write

DAYS = 40  # before today
EVERYTHING = Cohort(since_ns=0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with a request and its spans of each day."""
    store = ChdbStore.open(tmp_path)
    trace_ids = [f"{ago:032x}" for ago in range(1, DAYS + 1)]
    store.insert([columns(otlp(*(one_span(one) for one in trace_ids)))])
    write(store, [made_request(trace_id=one) for one in trace_ids], trace_ids)
    store.keep_noted()
    for table, column in ((REQUESTS, "Written"), (SPANS, "Arrived")):
        stamped = (
            f"{column} - toIntervalDay(toUInt64(reinterpretAsUInt64(reverse(unhex(TraceId)))))"
        )
        connection = store._assembler
        connection.query(f"CREATE TABLE {table}_past AS {table}", "Null")
        connection.query(
            f"INSERT INTO {table}_past SELECT * REPLACE ({stamped} AS {column}) FROM {table}",  # noqa: S608 - our own names
            "Null",
        )
        connection.query(f"TRUNCATE TABLE {table}", "Null")
        connection.query(f"INSERT INTO {table} SELECT * FROM {table}_past", "Null")  # noqa: S608 - likewise
        connection.query(f"DROP TABLE {table}_past SYNC", "Null")
    store.close()
    return tmp_path


@pytest.fixture
def store(folder: Path) -> Iterator[ChdbStore]:
    opened = ChdbStore.open(folder)
    yield opened
    opened.close()


def swept(store: ChdbStore, limits: Limits | None = None) -> Retention:
    """Drop what is due, at two looks."""
    steady = FakeClock()
    retention = Retention(store, limits or Limits(), now_ns, steady)
    retention.step()
    steady.move_s(SURE_S)
    retention.step()
    return retention


def days_kept(store: ChdbStore) -> dict[Table, int]:
    partitions = store.partitions()
    return {table: sum(one.table is table for one in partitions) for table in Table}


def test_old_days_are_dropped_and_the_others_answer(store: ChdbStore) -> None:
    assert days_kept(store) == {Table.ARRIVALS: 1, Table.SPANS: DAYS, Table.REQUESTS: DAYS}
    retention = swept(store)

    assert days_kept(store) == {Table.ARRIVALS: 1, Table.SPANS: 7, Table.REQUESTS: 30}
    assert list(retention.partitions) == store.partitions()
    found = {one.trace_id for one in store.requests(EVERYTHING, Order.NEWEST, 100)}
    assert found == {f"{ago:032x}" for ago in range(1, 31)}
    assert store.kept_counts([f"{ago:032x}" for ago in range(1, DAYS + 1)]) == {
        f"{ago:032x}": 1 for ago in range(1, 8)
    }


@pytest.mark.long
def test_what_a_partition_says_is_what_it_holds(store: ChdbStore) -> None:
    for one in store.partitions():
        assert one.rows == (DAYS if one.table is Table.ARRIVALS else 1)
        assert one.bytes > 0
        assert one.since_ns < one.until_ns
    ages = sorted((now_ns() - one.since_ns) // DAY_NS for one in store.partitions())
    assert ages[0] == 0
    assert ages[-1] in {DAYS, DAYS + 1}


@pytest.mark.long
def test_the_size_is_held_by_spans_before_ledgers(store: ChdbStore) -> None:
    sizes = {
        table: sum(one.bytes for one in store.partitions() if one.table is table)
        for table in Table
    }
    ledgers_and_arrivals = sizes[Table.REQUESTS] + sizes[Table.ARRIVALS]
    # Yesterday's spans stay in the first hour of a day, for it is not over for an hour.
    *_, yesterday = sorted(
        (one for one in store.partitions() if one.table is Table.SPANS),
        key=lambda one: one.since_ns,
    )
    most = ledgers_and_arrivals + yesterday.bytes
    limits = Limits(requests_ns=None, spans_ns=None, max_bytes=most)

    swept(store, limits)
    assert days_kept(store)[Table.REQUESTS] == DAYS
    assert days_kept(store)[Table.SPANS] == 1

    limits = Limits(requests_ns=None, spans_ns=None, max_bytes=ledgers_and_arrivals // 2)
    swept(store, limits)
    left = store.requests(EVERYTHING, Order.NEWEST, 100)
    assert 0 < len(left) < DAYS
    assert {one.trace_id for one in left} == {f"{ago:032x}" for ago in range(1, len(left) + 1)}


def test_what_is_dropped_stays_dropped(folder: Path) -> None:
    store = ChdbStore.open(folder)
    swept(store)
    store.close()

    with closing(ChdbStore.open(folder)) as store:
        assert days_kept(store) == {Table.ARRIVALS: 1, Table.SPANS: 7, Table.REQUESTS: 30}
        assert store.damaged_parts() == []


def test_the_engine_drops_no_arrivals_of_its_own_also_of_an_older_folder(tmp_path: Path) -> None:
    store = ChdbStore.open(tmp_path)
    older = f"ALTER TABLE {ARRIVALS} MODIFY TTL toDateTime(Arrived) + INTERVAL 1 SECOND"
    store._assembler.query("SYSTEM STOP TTL MERGES", "Null")
    store.insert([columns(otlp(one_span("a" * 32)))])
    store._assembler.query(older, "Null")
    assert store._assembler.query(HAS_TTL, "TSV") == b"1\n"
    store.close()

    store = ChdbStore.open(tmp_path)
    assert store._assembler.query(HAS_TTL, "TSV") == b"0\n"
    store.close()


DROPPING = """
import json, sys
from pathlib import Path
from latencytrace.service.stores.chdb.store import ChdbStore
store = ChdbStore.open(Path(sys.argv[1]))
for one in sorted(store.partitions(), key=lambda one: one.since_ns):
    print(json.dumps([one.table, one.since_ns]), flush=True)
    store.drop(one)
"""


@pytest.mark.parametrize("after", few(1, [4, 1, 17]))
def test_a_death_half_way_leaves_days_that_are_whole(folder: Path, after: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", DROPPING, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    lines = [line for _, line in zip(range(after), child.stdout, strict=False)]
    child.kill()
    lines += child.stdout.readlines()
    child.communicate(timeout=100)
    begun = {tuple(json.loads(line)) for line in lines if line.endswith("\n")}

    with closing(ChdbStore.open(folder)) as store:
        left = {(one.table, one.since_ns) for one in store.partitions()}
        count = {table: sum(one == table for one, _ in left) for table in Table}
        assert store.damaged_parts() == []
        assert len(begun | left) == 2 * DAYS + 1  # what was not begun is there
        assert store.count(EVERYTHING) == count[Table.REQUESTS]
        kept = store.kept_counts([f"{ago:032x}" for ago in range(1, DAYS + 1)])
        assert len(kept) == count[Table.SPANS]
        swept(store)
        assert days_kept(store) == {Table.ARRIVALS: 1, Table.SPANS: 7, Table.REQUESTS: 30}
