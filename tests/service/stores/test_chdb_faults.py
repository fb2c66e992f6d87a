"""What the embedded store does when the disk is full, or holds what was never written."""

import logging
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.errors import StoreError
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql.tables import ARRIVALS, REQUESTS, SPANS, UUIDS
from latencytrace.service.store import Order
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.otlp_messages import columns, one_span, otlp
from tests.support.few import few
from tests.support.tables.ledger_tables import write

EVERYTHING = Cohort(service=None)
BIG_SPANS = 3_000  # more bytes than rows are made of in Python


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChdbStore]:
    opened = ChdbStore.open(tmp_path / "data")
    yield opened
    opened.close()


def trace(number: int) -> str:
    return f"{number:032x}"


def block(*numbers: int, spans: int = 1) -> bytes:
    """Traces of some spans."""
    return otlp(
        *(
            one_span(trace(number), f"{place:016x}", attributes={"n": place})
            for number in numbers
            for place in range(1, spans + 1)
        )
    )


def told(store: ChdbStore, sql: str) -> None:
    """Have the engine itself do something."""
    store._engine.connect().query(sql, "Null")


def files_of(folder: Path, table: str, name: str) -> list[Path]:
    root = folder / "data" / "clickhouse" / "store" / UUIDS[table][:3] / UUIDS[table]
    return sorted(path for path in root.glob(f"*/{name}") if path.parent.name != "detached")


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


# What the engine does not take


REFUSALS: dict[str, Callable[[ChdbStore], None]] = {
    "a broken constraint": lambda store: told(
        store, f"ALTER TABLE {ARRIVALS} ADD CONSTRAINT small CHECK SpanId < '00000000000000ff'"
    ),
    "too many parts": lambda store: told(
        store,
        f"ALTER TABLE {ARRIVALS} MODIFY SETTING parts_to_delay_insert = 1, "
        "parts_to_throw_insert = 1, inactive_parts_to_throw_insert = 1, max_delay_to_insert = 1",
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("spans", [300, BIG_SPANS], ids=["rows made here", "the view's"])
def test_what_the_engine_refuses_is_an_error_and_never_half_a_success(
    store: ChdbStore, refusal: Callable[[ChdbStore], None], spans: int
) -> None:
    store.insert([columns(block(1))])
    refusal(store)

    with pytest.raises(StoreError, match="the store failed"):
        store.insert([columns(block(2, spans=spans))])

    assert store.arrived_counts([trace(1), trace(2)]) == {trace(1): 1}


def test_a_ledger_that_the_engine_refuses_is_an_error(store: ChdbStore) -> None:
    told(store, f"ALTER TABLE {REQUESTS} ADD CONSTRAINT brief CHECK DurationNs < 1")

    with pytest.raises(StoreError, match="the store failed"):
        write(store, [made_request()], ())

    assert store.count(EVERYTHING) == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, where the machine lets one mount it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run([umount or "umount", str(folder)], check=False)


def kept_another(store: ChdbStore, spans: bytes) -> bool:
    """Whether a store says that it kept them."""
    try:
        store.insert([columns(spans)])
    except StoreError as error:
        assert "the store failed" in str(error)  # noqa: PT017 - it is expected at some time
        return False
    return True


def test_a_full_disk_is_an_error_and_all_that_was_kept_is_there(small_disk: Path) -> None:
    store = ChdbStore.open(small_disk / "data")
    filler = small_disk / "filler"
    kept = 0
    store.insert([columns(block(1))])
    filler.write_bytes(b"x" * (shutil.disk_usage(small_disk).free - 1_500_000))
    try:
        while kept_another(store, block(2 + kept, spans=BIG_SPANS)):
            kept += 1
        counts = store.arrived_counts([trace(2 + number) for number in range(kept + 1)])
        assert counts == {trace(2 + number): BIG_SPANS for number in range(kept)}
        filler.unlink()
        store.insert([columns(block(2 + kept, spans=BIG_SPANS))])
        assert store.arrived_counts([trace(2 + kept)]) == {trace(2 + kept): BIG_SPANS}
    finally:
        store.close()


# What is damaged on disk


def filled(folder: Path) -> None:
    """A folder with two parts in each table."""
    store = ChdbStore.open(folder / "data")
    for table in (ARRIVALS, SPANS, REQUESTS):
        told(store, f"SYSTEM STOP MERGES {table}")
    for number in (1, 2):
        store.insert([columns(block(number, spans=20))])
        write(store, [made_request(trace_id=trace(number), span_id="1" * 16)], [trace(number)])
        store.keep_noted()
    store.close()


@pytest.mark.parametrize("name", few(1, ["data.bin", "primary.cidx"]))
@pytest.mark.parametrize("table", few(1, [REQUESTS, ARRIVALS, SPANS]))
def test_a_wrong_bit_costs_one_part_and_every_question_is_answered(
    tmp_path: Path, table: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path)
    store = ChdbStore.open(tmp_path / "data")
    flip(files_of(tmp_path, table, name)[0])

    with caplog.at_level(logging.ERROR):
        arrived = store.arrived([trace(1), trace(2)])
        listed = store.requests(EVERYTHING, Order.NEWEST, 10)
        store.revisions([trace(1), trace(2)])
        store.unassembled()
        kept = [store.kept_spans(trace(number)) for number in (1, 2)]
        count = store.breakdown(EVERYTHING).requests
    damaged = store.damaged_parts()
    store.insert([columns(block(3))])
    after = store.arrived([trace(3)])
    store.close()

    assert len(arrived) == 2  # those of a part of one table are in the other, too
    assert len(listed) == count == (1 if table == REQUESTS else 2)
    assert all(kept)
    assert list(after) == [trace(3)]
    assert [f"latencytrace.{part.table}" for part in damaged] == [table]
    assert damaged[0].rows == (1 if table == REQUESTS else 20)
    assert damaged[0].name in caplog.text


@pytest.mark.long
@pytest.mark.parametrize("table", [ARRIVALS, SPANS, REQUESTS])
def test_a_folder_with_a_damaged_part_opens_and_names_it(
    tmp_path: Path, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path)
    flip(files_of(tmp_path, table, "data.bin")[0])
    store = ChdbStore.open(tmp_path / "data")
    store.arrived([trace(1), trace(2)])
    store.requests(EVERYTHING, Order.NEWEST, 10)
    store.kept_spans(trace(1))
    store.close()

    with caplog.at_level(logging.WARNING):
        store = ChdbStore.open(tmp_path / "data")
    damaged = store.damaged_parts()
    store.close()

    assert [f"latencytrace.{part.table}" for part in damaged] == [table]
    assert damaged[0].name in caplog.text


# What the engine merges


@pytest.mark.parametrize("by_ns", [8_000_000, 3_600 * 10**9], ids=["a little", "an hour"])
def test_a_request_that_moved_there_and_back_survives_a_merge(
    store: ChdbStore, by_ns: int
) -> None:
    first = made_request(trace_id=trace(1))
    back = replace(first, revision=3)
    for request in (first, replace(first, start_ns=first.start_ns + by_ns, revision=2), back):
        write(store, [request], ())
    told(store, f"OPTIMIZE TABLE {REQUESTS} FINAL")

    assert store.request(trace(1), None) == back
    assert store.count(EVERYTHING) == 1


def test_more_attributes_than_a_column_counts_are_as_many_as_it_can(store: ChdbStore) -> None:
    write(store, [made_request(trace_id=trace(1), attributes_left_out=2**40)], ())

    found = store.request(trace(1), None)
    assert found is not None
    assert found.attributes_left_out == 2**32 - 1


# What came from other days


def test_spans_of_three_thousand_days_make_a_handful_of_files(
    tmp_path: Path, store: ChdbStore
) -> None:
    day_ns = 86_400 * 10**9
    days = range(3_000)
    spans = [
        one_span(trace(day + 1), start_ns=day * day_ns, end_ns=day * day_ns + 1) for day in days
    ]
    store.insert([columns(otlp(*spans))])
    requests = [
        made_request(trace_id=trace(day + 1), span_id="1" * 16, start_ns=day * day_ns)
        for day in days
    ]
    write(store, requests, [trace(day + 1) for day in days])
    store.keep_noted()

    files = [path for path in (tmp_path / "data" / "clickhouse").rglob("*") if path.is_file()]
    assert store.count(EVERYTHING) == len(days)
    assert len(files) < 200


# What an older version left


def test_the_rows_of_an_older_layout_are_taken_over(tmp_path: Path) -> None:
    filled(tmp_path)
    store = ChdbStore.open(tmp_path / "data")
    for table in (SPANS, REQUESTS):
        older = f"{table}_older"
        told(store, f"CREATE TABLE {older} AS {table} PARTITION BY tuple()")
        told(store, f"INSERT INTO {older} SELECT * FROM {table}")  # noqa: S608 - our own names
        told(store, f"DROP TABLE {table} SYNC")
        told(store, f"RENAME TABLE {older} TO {table}")
    store.close()

    store = ChdbStore.open(tmp_path / "data")
    listed = {request.trace_id for request in store.requests(EVERYTHING, Order.NEWEST, 10)}
    kept = store.kept_counts([trace(1), trace(2)])
    store.close()
    store = ChdbStore.open(tmp_path / "data")  # now it is of today's
    again = store.count(EVERYTHING)
    store.close()

    assert listed == {trace(1), trace(2)}
    assert kept == {trace(1): 20, trace(2): 20}
    assert again == 2


def test_rows_of_many_days_of_an_older_layout_are_taken_over(tmp_path: Path) -> None:
    filled(tmp_path)
    store = ChdbStore.open(tmp_path / "data")
    older = f"{REQUESTS}_older"
    told(store, f"CREATE TABLE {older} AS {REQUESTS} PARTITION BY tuple()")
    told(
        store,
        f"INSERT INTO {older} (TraceId, SpanId, Outermost, Start, Written) "  # noqa: S608 - our own names
        "SELECT toString(number), '1', 1, 0, toDateTime64('2025-01-01 00:00:00', 3) "
        "+ INTERVAL number DAY FROM numbers(150)",
    )
    told(store, f"DROP TABLE {REQUESTS} SYNC")
    told(store, f"RENAME TABLE {older} TO {REQUESTS}")
    store.close()

    store = ChdbStore.open(tmp_path / "data")
    count = store.count(EVERYTHING)
    store.close()

    assert count == 150


def test_a_shortage_of_files_is_an_error_and_passes(store: ChdbStore) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 1, limits[1]))
    os.close(opened)
    taken = os.open(os.devnull, os.O_RDONLY)
    try:
        with pytest.raises(StoreError, match="handed to the store"):
            store.insert([columns(block(1))])
    finally:
        os.close(taken)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    store.insert([columns(block(1))])

    assert store.arrived_counts([trace(1)]) == {trace(1): 1}
