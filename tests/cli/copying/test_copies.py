"""Backups, what is made of them, and the move to a server: every row, once."""

import io
import json
import re
import signal
import subprocess
import tarfile
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import IO, cast

import numpy as np
import pytest
import typer
from fastapi import FastAPI
from fastapi.testclient import TestClient

from latencytrace.cli.commands.backup import backup
from latencytrace.cli.copying.archive import MANIFEST
from latencytrace.cli.copying.backup import back_up, restore_into
from latencytrace.cli.copying.migrate import migrate_to
from latencytrace.cli.source.filters import Filters
from latencytrace.cli.source.folder import open_folder
from latencytrace.errors import LatencytraceError, StoreError, TooLargeError
from latencytrace.model import Request, Span
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql import copying
from latencytrace.service.sql_store.whole_tables import SqlTables
from latencytrace.service.store import MOST_SHARES, Piece, Store, Table, open_store
from latencytrace.service.stores.chdb.store import ChdbStore
from latencytrace.service.web.views.backup import backup_router
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.otlp_messages import columns, one_span, otlp
from tests.support.clickhouse.front import HELD, HOLD, INSERTS, ClickHouseFront
from tests.support.servers.command_line import COMMAND, environment, latencytrace
from tests.support.servers.running_service import RunningService
from tests.support.tables.ledger_tables import write
from tests.support.waiting import until

pytestmark = pytest.mark.long

HOURS = 12
SPANS = 5  # of a trace
LARGE, FEW = 24, 4  # rows of a piece, and how many are read at once
HOUR_NS = 3600 * 10**9
TRACES = [f"{hour + 1:032x}" for hour in range(HOURS)]
WITHOUT_LEDGER = "f" * 32  # a trace that its service had no time for
Content = tuple[list[Request], dict[str, tuple[Span, ...]], dict[str, int], dict[str, int]]


def spans_of(trace_id: str) -> list[Span]:
    root = one_span(trace_id, "1" * 16, attributes={"a": 1.5, "list": ("x", 2), "none": "ü\0\n"})
    children = [
        one_span(trace_id, f"{number:016x}", parent_id="1" * 16, start_ns=number * HOUR_NS)
        for number in range(2, SPANS + 1)
    ]
    return [root, *children]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a trace of each of the last hours, so that there are many pieces."""
    made = tmp_path_factory.mktemp("embedded") / "data"
    with closing(ChdbStore.open(made)) as store:
        for hour, trace_id in enumerate(TRACES):
            age_ns = (HOURS - hour) * HOUR_NS
            block = columns(otlp(*spans_of(trace_id)))
            store.insert([block], age_ns)
            if hour % 2:
                store.keep([(block, np.arange(block.count))], age_ns)
            request = made_request(100 + hour, trace_id=trace_id, start_ns=hour * HOUR_NS)
            write(store, [request], [], age_ns=age_ns)
        moved = made_request(900, trace_id=TRACES[0], start_ns=7 * HOUR_NS, revision=2)
        write(store, [moved], [], counted=[(moved.trace_id, moved.span_id)])
        store.insert([columns(otlp(*spans_of(WITHOUT_LEDGER)))])
    return made


def content(store: Store) -> Content:
    traces = [*TRACES, WITHOUT_LEDGER]
    requests = sorted(store.written(traces), key=lambda one: one.trace_id)
    return (
        requests, dict(store.arrived(traces)), dict(store.arrived_counts(traces)),
        dict(store.kept_counts(traces)),
    )  # fmt: skip


def content_of(folder: Path) -> Content:
    with closing(ChdbStore.open(folder)) as store:
        return content(store)


@pytest.fixture(scope="module")
def archive(folder: Path) -> Path:
    path = folder.parent / "whole.tar"
    done = latencytrace("backup", path, "--data", folder)
    assert done.returncode == 0, done.stderr
    requests = HOURS
    kept, arrived = HOURS // 2 * SPANS, (HOURS + 1) * SPANS
    assert f"{requests} requests, {kept} spans kept, {arrived} spans of the last" in done.stdout
    return path


def test_what_is_restored_is_equal_to_what_was_backed_up(
    folder: Path, archive: Path, tmp_path: Path
) -> None:
    done = latencytrace("restore", archive, "--data", tmp_path / "restored")

    assert done.returncode == 0, done.stderr
    found = content_of(tmp_path / "restored")
    assert found == content_of(folder)
    assert [one.revision for one in found[0]][:2] == [2, 1]
    assert sum(found[2].values()) == (HOURS + 1) * SPANS
    with closing(ChdbStore.open(tmp_path / "restored")) as store:
        assert store.unassembled() == [WITHOUT_LEDGER]


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9, 0.9999])  # the last is the manifest
def test_a_backup_with_one_wrong_byte_is_refused(archive: Path, tmp_path: Path, at: float) -> None:
    with tarfile.open(archive) as whole:
        entries = [one for one in whole if one.size > 100]
    entry = entries[int(at * len(entries))]
    wrong = bytearray(archive.read_bytes())
    wrong[entry.offset_data + 50] ^= 1
    damaged = tmp_path / "damaged.tar"
    damaged.write_bytes(wrong)

    done = latencytrace("restore", damaged, "--data", tmp_path / "restored")

    assert done.returncode == 1
    assert "damaged" in done.stderr
    assert not (tmp_path / "restored").exists()


@pytest.mark.parametrize(
    "said",
    [{"bytes": -1}, {"bytes": 5}, {"bytes": 10**12}, {"bytes": 2**70}, {"rows": 10**9}],
    ids=str,
)
def test_a_manifest_that_says_other_lengths_is_refused(
    archive: Path, tmp_path: Path, said: dict[str, int]
) -> None:
    hostile = tmp_path / "hostile.tar"
    with tarfile.open(archive) as whole, tarfile.open(hostile, "w") as made:
        for member in whole:
            content = cast(IO[bytes], whole.extractfile(member)).read()
            if member.name == MANIFEST:
                document = json.loads(content)
                document["files"][0].update(said)
                content = json.dumps(document).encode()
                member.size, member.pax_headers = len(content), {}
            made.addfile(member, io.BytesIO(content))

    with pytest.raises(LatencytraceError, match="is damaged: "):
        restore_into(hostile, tmp_path / "restored")

    assert not (tmp_path / "restored").exists()


def test_a_backup_that_was_cut_off_is_refused(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as whole:
        last = whole.getmembers()[-1]
    cut = tmp_path / "cut.tar"
    cut.write_bytes(archive.read_bytes()[: last.offset])

    done = latencytrace("restore", cut, "--data", tmp_path / "restored")

    assert done.returncode == 1
    assert "cut off" in done.stderr


def test_nothing_is_written_over(archive: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("mine")

    into = latencytrace("restore", archive, "--data", taken)
    over = latencytrace("backup", archive, "--data", tmp_path / "nothing")

    assert into.returncode == 1
    assert "is not empty" in into.stderr
    assert [path.name for path in taken.iterdir()] == ["mine"]
    assert over.returncode == 1


@pytest.mark.parametrize("name", ["-", "/proc/self/fd/1"])
def test_a_backup_is_no_stream(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(typer.BadParameter, match="cannot be standard output"):
        backup(Path(name), data=tmp_path / "data")

    assert list(tmp_path.iterdir()) == []


def test_a_backup_leaves_its_neighbours_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "early.tar.part").write_text("mine")

    done = latencytrace(
        "backup", tmp_path / "early.tar", "--data", copy_of(folder, tmp_path / "d")
    )

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "early.tar").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "early.tar.part").read_text() == "mine"
    assert len([*tmp_path.iterdir()]) == 3


def test_a_restore_that_was_cut_short_is_begun_again(
    folder: Path, archive: Path, tmp_path: Path
) -> None:
    half = tmp_path / "restored.restoring"
    with closing(ChdbStore.open(half)) as store:
        store.insert([columns(otlp(one_span()))])

    done = latencytrace("restore", archive, "--data", tmp_path / "restored")

    assert done.returncode == 0, done.stderr
    assert not half.exists()
    assert content_of(tmp_path / "restored") == content_of(folder)


@pytest.mark.parametrize("link", [False, True])
def test_a_restore_fills_an_empty_folder_that_cannot_be_renamed(
    folder: Path, archive: Path, tmp_path: Path, *, link: bool
) -> None:
    volume = tmp_path / "volume"
    (volume / ".restoring").mkdir(parents=True)  # of an attempt that was cut short
    (volume / "lost+found").mkdir()  # it is the root of a file system
    (volume / ".restoring" / "half").touch()
    inode = volume.stat().st_ino
    named = tmp_path / "link" if link else volume
    if link:
        named.symlink_to(volume)

    done = latencytrace("restore", archive, "--data", named)

    assert done.returncode == 0, done.stderr
    assert volume.stat().st_ino == inode  # as a volume, it is there still
    assert not {".restoring", "half"} & {path.name for path in volume.iterdir()}
    assert content_of(named) == content_of(folder)


class Meanwhile:
    """The API of a store, where something happens once so many pieces were read."""

    def __init__(self, store: Store, happens: Callable[[], None], read: int) -> None:
        application = FastAPI()
        application.include_router(backup_router(store))
        self._client = TestClient(application)
        self._happens = happens
        self._left = read

    def document(self, path: str, parameters: Filters) -> object:
        """See `Source.document`."""
        document: object = json.loads(self.body(path, parameters))
        return document

    def body(self, path: str, parameters: Filters) -> bytes:
        """See `Source.body`."""
        if path == "/backup/rows":
            if self._left == 0:
                self._happens()
            self._left -= 1
        answer = self._client.get(path, params=dict(parameters))
        assert answer.is_success
        return answer.content


def test_a_ledger_that_comes_while_a_backup_is_read_has_its_spans(tmp_path: Path) -> None:
    first, second = TRACES[:2]
    with closing(ChdbStore.open(tmp_path / "data")) as store:

        def attribute(trace_id: str, start_ns: int) -> None:
            store.insert([columns(otlp(one_span(trace_id, start_ns=start_ns)))])
            write(store, [made_request(trace_id=trace_id, start_ns=0)], [])

        attribute(first, 0)
        # Its spans are in a window that there was none of.
        source = Meanwhile(store, lambda: attribute(second, HOUR_NS), read=0)
        back_up(source, tmp_path / "live.tar")
    restore_into(tmp_path / "live.tar", tmp_path / "restored")

    with closing(ChdbStore.open(tmp_path / "restored")) as store:
        assert set(store.arrived([first, second])) == {first, second}
        ledgers = {one.trace_id for one in store.written([first, second])}
        assert {first, second} == ledgers | set(store.unassembled())


@pytest.mark.parametrize("age_ns", [0, HOUR_NS])
def test_a_request_that_is_revised_while_a_backup_is_read_is_restored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_ns: int
) -> None:
    monkeypatch.setattr("latencytrace.service.sql.copying.MOST_ROWS", 1)
    first, second = TRACES[:2]
    with closing(ChdbStore.open(tmp_path / "data")) as store:

        def revise() -> None:
            revised = made_request(trace_id=first, start_ns=HOUR_NS, revision=2)
            write(store, [revised], [], counted=[(first, revised.span_id)])

        for trace_id, start_ns in ((first, 0), (second, HOUR_NS)):
            write(store, [made_request(trace_id=trace_id, start_ns=start_ns)], [], age_ns=age_ns)
        back_up(Meanwhile(store, revise, read=1), tmp_path / "live.tar")
        assert store.count(Cohort(since_ns=0)) == 2
    counts = restore_into(tmp_path / "live.tar", tmp_path / "restored")

    assert sum(counts.values()) == 2
    with closing(ChdbStore.open(tmp_path / "restored")) as store:
        assert store.count(Cohort(since_ns=0)) == 2
        assert {one.trace_id for one in store.written([first, second])} == {first, second}


def test_a_backup_of_a_service_that_takes_spans_meanwhile_is_consistent(tmp_path: Path) -> None:
    def post(service: RunningService, number: int) -> None:
        assert service.post(otlp(*spans_of(f"{number:032x}"))).is_success

    def counted(service: RunningService) -> int:
        count = service.ask("/breakdown?since=1970-01-01T00:00:00Z")["requests"]
        assert isinstance(count, int)
        return count

    ended = threading.Event()
    sent: list[int] = []

    def go_on(service: RunningService) -> None:
        while not ended.wait(0.01):
            post(service, len(sent) + 100)
            sent.append(1)

    with RunningService(tmp_path / "data") as service:
        for number in range(1, 31):
            post(service, number)
        until(lambda: counted(service) == 30, service.said)
        sender = threading.Thread(target=go_on, args=(service,))
        sender.start()
        until(lambda: counted(service) > 30, service.said)
        done = latencytrace("backup", tmp_path / "live.tar", "--url", service.url)
        ended.set()
        sender.join()

    assert done.returncode == 0, done.stderr
    restored = latencytrace("restore", tmp_path / "live.tar", "--data", tmp_path / "restored")
    assert restored.returncode == 0, restored.stderr
    with closing(ChdbStore.open(tmp_path / "restored")) as store:
        everything = [f"{number:032x}" for number in range(1, len(sent) + 101)]
        ledgers = {one.trace_id for one in store.written(everything)}
        arrived = store.arrived(everything)
        left = set(store.unassembled())
    assert {f"{number:032x}" for number in range(1, 31)} <= ledgers
    assert len(ledgers) > 30
    # A ledger has its spans; spans without one are taken up by whoever starts next.
    assert {len(arrived[one]) for one in ledgers} == {SPANS}
    assert set(arrived) == ledgers | left
    with RunningService(tmp_path / "restored") as again:
        until(lambda: counted(again) == len(arrived), again.said)


def test_kept_spans_whose_ledger_came_after_the_copy_are_attributed_at_the_next_start(
    tmp_path: Path,
) -> None:
    with closing(ChdbStore.open(tmp_path / "data")) as store:
        block = columns(otlp(*spans_of(TRACES[0])))
        store.keep([(block, np.arange(block.count))])
    archive = tmp_path / "early.tar"
    assert latencytrace("backup", archive, "--data", tmp_path / "data").returncode == 0

    done = latencytrace("restore", archive, "--data", tmp_path / "restored")

    assert done.returncode == 0, done.stderr
    with closing(ChdbStore.open(tmp_path / "restored")) as store:
        assert store.unassembled() == [TRACES[0]]
        assert len(store.arrived([TRACES[0]])[TRACES[0]]) == SPANS


def moved_to(front: ClickHouseFront, database: str, folder: Path) -> Content:
    with closing(open_store(front.url(database), folder)) as store:
        return content(store)


def copy_of(folder: Path, path: Path) -> Path:
    subprocess.run(["cp", "-a", folder, path], check=True)
    return path


def test_a_move_that_is_killed_goes_on_where_it_ended(
    folder: Path, front: ClickHouseFront, tmp_path: Path
) -> None:
    mine = copy_of(folder, tmp_path / "data")
    expected = content_of(mine)
    url = front.url("killed")
    with closing(ChdbStore.open(mine)) as store:
        rows = [count for piece in store.pieces() if (count := store.count_of(piece))]
    before = int(front.told(INSERTS))
    front.told(f"{HOLD}{before + 3}")
    with subprocess.Popen(
        [*COMMAND, "migrate", url, "--data", str(mine)], env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as first:  # fmt: skip
        until(lambda: front.told(HELD) == "1")
        first.send_signal(signal.SIGKILL)
        assert first.stdout is not None
        first.stdout.read()
    cut_short = int(front.told(INSERTS)) - before
    front.told(HOLD)

    done = latencytrace("migrate", url, "--data", mine)
    all_inserts = int(front.told(INSERTS)) - before
    again = latencytrace("migrate", url, "--data", mine)

    assert cut_short == 3 < len(rows)
    assert done.returncode == 0, done.stderr
    assert "the same of each table and day" in done.stdout
    copied = re.search(r"(\d+) rows copied this time", done.stdout)
    assert copied is not None
    assert int(copied[1]) == sum(rows[3:])
    assert all_inserts == len(rows)  # what was there was not sent again
    assert not (mine / "migrating.json").exists()
    assert again.returncode == 0, again.stderr
    assert "nothing to do" in again.stdout
    assert moved_to(front, "killed", mine) == expected


def test_a_move_that_was_cut_short_goes_on_whatever_was_merged_meanwhile(
    front: ClickHouseFront, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with closing(ChdbStore.open(data)) as store:
        spans = [one_span(one, start_ns=at * HOUR_NS) for at, one in enumerate(TRACES)]
        store.insert([columns(otlp(*spans))])
    url = front.url("merged")

    def one_piece(source: Store, server: Store, pieces: Sequence[Piece], _: object) -> int:
        assert server.take(pieces[0], source.rows_of(pieces[0])) == 2
        raise StoreError("it is cut short")

    # As before a merge, by which rows take less: pieces are larger then.
    with monkeypatch.context() as before:
        before.setattr("latencytrace.service.sql.copying.MOST_ROWS", 2)
        before.setattr("latencytrace.cli.copying.migrate._copied", one_piece)
        with pytest.raises(StoreError, match="cut short"):
            migrate_to(url, data)

    assert migrate_to(url, data).copied == HOURS - 2
    with closing(open_store(url, data)) as server:
        assert sum(server.arrived_counts(TRACES).values()) == HOURS


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a piece of more rows than can be read at once, in two windows.

    `tests/service/web/test_backup.py` has rows that take too much memory; here there are too many.
    """
    data = tmp_path / "large"
    with closing(ChdbStore.open(data)) as store:
        ids = [f"{number + 1:032x}" for number in range(LARGE)]
        spans = [one_span(one, start_ns=at % 2 * HOUR_NS) for at, one in enumerate(ids)]
        store.insert([columns(otlp(*spans))])
    rows_of = SqlTables.rows_of

    def few_rows(store: SqlTables, piece: Piece) -> bytes:
        if store.count_of(piece) > FEW:
            raise TooLargeError("it takes more memory than it may")
        return rows_of(store, piece)

    monkeypatch.setattr(SqlTables, "rows_of", few_rows)
    return data


def test_pieces_that_take_too_much_memory_are_moved_in_smaller_ones(
    large: Path, front: ClickHouseFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = front.url("large")
    with closing(ChdbStore.open(large)) as store:
        pieces = store.pieces()
    taken: list[Piece] = []
    take = SqlTables.take

    def cut_short(store: SqlTables, piece: Piece, rows: bytes) -> int:
        if len(taken) == 1:
            raise StoreError("it is cut short")
        taken.append(piece)
        return take(store, piece, rows)

    with monkeypatch.context() as failing:
        failing.setattr(SqlTables, "take", cut_short)
        with pytest.raises(StoreError, match="cut short"):
            migrate_to(url, large)
    noted = json.loads((large / "migrating.json").read_text())["pieces"]

    done = migrate_to(url, large)

    assert len(noted) > len(pieces) == 1
    assert len({piece["first_s"] for piece in noted}) > 1  # by windows first
    assert any(piece["shares"] > 1 for piece in noted)  # then by traces
    with closing(ChdbStore.open(large)) as store:
        there = store.count_of(taken[0])
    assert 0 < there <= FEW
    assert done.copied == LARGE - there
    assert sum(done.counts.values()) == LARGE


def test_pieces_that_take_too_much_memory_are_backed_up_in_smaller_ones(
    large: Path, tmp_path: Path
) -> None:
    with open_folder(large) as source:
        counts = back_up(source, tmp_path / "large.tar")
    restored = restore_into(tmp_path / "large.tar", tmp_path / "restored")

    assert sum(counts.values()) == sum(restored.values()) == LARGE
    assert content_of(tmp_path / "restored") == content_of(large)


@pytest.mark.parametrize(("first_s", "last_s"), [(300, 1500), (7, 1799)])
def test_a_piece_is_halved_between_its_windows(first_s: int, last_s: int) -> None:
    """Half of a window would be asked for in vain."""
    piece = Piece(table=Table.SPANS, since_s=0, until_s=86_400, first_s=first_s, last_s=last_s)
    pieces, single = [piece], []
    while pieces:
        halves = pieces.pop().halves()
        single += [half for half in halves if half.first_s == half.last_s]
        pieces += [half for half in halves if half.first_s != half.last_s]

    assert sorted(one.first_s for one in single) == [300, 600, 900, 1200, 1500]


def test_one_trace_that_takes_too_much_memory_is_said() -> None:
    piece = Piece(table=Table.SPANS, since_s=0, until_s=86_400, first_s=300, last_s=300)
    halves = [piece]
    while halves[-1].shares < MOST_SHARES:
        halves = [half for one in halves[-1:] for half in one.halves()]

    with pytest.raises(StoreError, match="one trace of spans of 1970-01-01 takes more memory"):
        halves[-1].halves()


def test_what_came_after_the_move_is_not_said_to_be_moved(
    folder: Path, front: ClickHouseFront, tmp_path: Path
) -> None:
    mine = copy_of(folder, tmp_path / "data")
    assert latencytrace("migrate", front.url("grown"), "--data", mine).returncode == 0
    with closing(ChdbStore.open(mine)) as store:
        store.insert([columns(otlp(one_span("e" * 32)))])

    again = latencytrace("migrate", front.url("grown"), "--data", mine)
    (mine / "migrated.json").unlink()
    anew = latencytrace("migrate", front.url("grown_anew"), "--data", mine)

    assert again.returncode == 1
    assert "has more by now" in again.stderr
    assert "migrated.json" in again.stderr
    assert anew.returncode == 0, anew.stderr
    assert moved_to(front, "grown_anew", mine) == content_of(mine)


def test_what_the_embedded_store_had_no_ledger_of_is_attributed_on_the_server(
    folder: Path, front: ClickHouseFront, tmp_path: Path
) -> None:
    mine = copy_of(folder, tmp_path / "data")
    assert latencytrace("migrate", front.url("taken_up"), "--data", mine).returncode == 0

    with RunningService(mine, "--store", front.url("taken_up")) as service:
        assert service.request(WITHOUT_LEDGER)["trace_id"] == WITHOUT_LEDGER
        kept = service.request(TRACES[1])

    assert kept["duration_ns"] == 101


def test_a_store_that_a_service_uses_is_not_moved(front: ClickHouseFront, tmp_path: Path) -> None:
    with RunningService(tmp_path / "data"):
        done = latencytrace("migrate", front.url("used"), "--data", tmp_path / "data")

    assert done.returncode == 1
    assert "belongs to process" in done.stderr


def test_rows_that_are_missing_on_the_server_are_named(
    folder: Path, front: ClickHouseFront, tmp_path: Path
) -> None:
    mine = copy_of(folder, tmp_path / "data")
    with closing(open_store(front.url("other"), mine)) as store:
        with closing(ChdbStore.open(tmp_path / "unused")) as unused:
            assert unused.pieces() == []
        only = columns(otlp(one_span(TRACES[-1], start_ns=spans_of(TRACES[-1])[0].start_ns)))
        store.insert([only], HOUR_NS)

    done = latencytrace("migrate", front.url("other"), "--data", mine)

    assert done.returncode == 1
    assert "rows of span_arrivals of" in done.stderr
    assert "begin again with an empty database" in done.stderr


def test_pieces_hold_every_row_once_whatever_their_size(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latencytrace.service.sql.copying.MOST_ROWS", 2)
    with closing(ChdbStore.open(copy_of(folder, tmp_path / "data"))) as store:
        pieces = store.pieces()
        read = {piece: store.rows_of(piece) for piece in pieces}
        counts = [store.count_of(piece) for piece in pieces]
    with closing(ChdbStore.open(tmp_path / "other")) as store:
        taken = [store.take(piece, rows) for piece, rows in read.items() if rows]

    assert any(piece.shares > 1 for piece in pieces)
    assert sum(counts) == sum(taken) == HOURS + HOURS // 2 * SPANS + (HOURS + 1) * SPANS
    assert sum(piece.rows for piece in pieces) == sum(taken) + 2  # rows that do not stand
    assert content_of(tmp_path / "other") == content_of(folder)
    assert replace(pieces[0], rows=0) != replace(pieces[1], rows=0)


def test_requests_of_a_copy_from_before_weights_stand_for_themselves(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = copying.TARGETS[Table.REQUESTS]
    before = {name: kind for name, kind in now.columns.items() if name != "Weight"}
    with (
        closing(ChdbStore.open(copy_of(folder, tmp_path / "data"))) as store,
        monkeypatch.context() as older,
    ):
        older.setitem(copying.TARGETS, Table.REQUESTS, replace(now, columns=before))
        pieces = [one for one in store.pieces() if one.table is Table.REQUESTS]
        read = [(piece, store.rows_of(piece)) for piece in pieces]
    with closing(ChdbStore.open(tmp_path / "other")) as store:
        for piece, rows in read:
            if rows:
                store.take(piece, rows)

        assert store.breakdown(Cohort()).requests == HOURS
        assert {one.weight for one in store.written(TRACES)} == {1}


def test_a_store_on_a_server_is_backed_up_through_its_service(
    folder: Path, front: ClickHouseFront, tmp_path: Path
) -> None:
    mine = copy_of(folder, tmp_path / "data")
    expected = content_of(mine)
    assert latencytrace("migrate", front.url("backed_up"), "--data", mine).returncode == 0
    with closing(open_store(front.url("backed_up"), tmp_path / "another")) as other:
        other.insert([columns(otlp(*spans_of("e" * 32)))])  # of another service: it counts, too
    archive = tmp_path / "server.tar"

    with RunningService(mine, "--store", front.url("backed_up")) as service:
        service.request(WITHOUT_LEDGER)
        done = latencytrace("backup", archive, "--url", service.url)
    restored = latencytrace("restore", archive, "--data", tmp_path / "restored")

    assert done.returncode == 0, done.stderr
    assert restored.returncode == 0, restored.stderr
    requests, arrived, _, _ = content_of(tmp_path / "restored")
    assert [one for one in requests if one.trace_id != WITHOUT_LEDGER] == expected[0]
    assert arrived == expected[1]
    with closing(ChdbStore.open(tmp_path / "restored")) as store:
        assert len(store.arrived(["e" * 32])["e" * 32]) == SPANS


@pytest.mark.parametrize("most", [50_000, 1])
def test_times_that_no_column_of_windows_holds_are_copied_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("latencytrace.service.sql.copying.MOST_ROWS", most)
    edges = (0, 1, 2**31 * 10**9, 2**32 * 10**9, 2**63 - 1, 2**63, 2**64 - 1)
    traces = [f"{number + 1:032x}" for number in range(len(edges))]
    with closing(ChdbStore.open(tmp_path / "data")) as store:
        for trace_id, start_ns in zip(traces, edges, strict=True):
            store.insert([columns(otlp(one_span(trace_id, start_ns=start_ns, end_ns=start_ns)))])
            write(store, [made_request(trace_id=trace_id, start_ns=start_ns)], [])
        read = {piece: store.rows_of(piece) for piece in store.pieces()}
        expected = (store.arrived(traces), {one.trace_id: one for one in store.written(traces)})
    with closing(ChdbStore.open(tmp_path / "other")) as store:
        for piece, rows in read.items():
            store.take(piece, rows)
        found = (store.arrived(traces), {one.trace_id: one for one in store.written(traces)})

    assert len(found[0]) == len(found[1]) == len(edges)
    assert found == expected
