"""What the embedded store promises beyond the contract: its folder, its process, its tables."""

import itertools
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import chdb
import pytest

from latencytrace.errors import StoreError, StoreInUseError
from latencytrace.model import Stage, semconv
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql.tables import (
    COLUMNS,
    OLD_SETTINGS,
    SPANS,
    UUIDS,
    WINDOWS,
    missing_columns,
)
from latencytrace.service.sql_store.engine import bound_text
from latencytrace.service.sql_store.pending_copies import TO_KEEP
from latencytrace.service.sql_store.store import MOST_TO_KEEP
from latencytrace.service.stores.chdb.engine import Engine
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.otlp_messages import TRACE, columns, one_span, otlp
from tests.support.few import few
from tests.support.tables.ledger_tables import write

ENGINE = "clickhouse"
SPAN = one_span()


def sql(folder: Path, question: str) -> str:
    """What the engine answers on a folder that no store has open."""
    connection = chdb.connect(str(folder / ENGINE))
    try:
        return str(connection.query(question, "TSV").data())
    finally:
        connection.close()


def a_folder_with_one_span(folder: Path) -> None:
    store = ChdbStore.open(folder)
    store.insert([columns(otlp(SPAN))])
    store.close()


def spans_in(folder: Path) -> int:
    store = ChdbStore.open(folder)
    try:
        return len(store.arrived([TRACE]).get(TRACE, ()))
    finally:
        store.close()


# The folder and its owner


def test_the_engine_rarely_looks_after_memory(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "data")
    asked = "SELECT value FROM system.server_settings WHERE name = 'memory_worker_period_ms'"

    assert engine.connect().query(asked, "TSV") == b"1000\n"
    engine.close()


def test_no_question_waits_until_it_is_compiled(tmp_path: Path) -> None:
    store = ChdbStore.open(tmp_path)
    write(store, [made_request()], [])

    def compiled() -> bytes:
        counter = "SELECT sum(value) FROM system.events WHERE event = 'CompileFunction'"
        return store._assembler.query(counter, "TSV")

    before = compiled()
    for _ in range(4):  # the engine by itself compiles what comes for the third time
        store.breakdown(Cohort())

    assert compiled() == before
    store.close()


_AROUND = """
import sys
from pathlib import Path
from latencytrace.service.answers.breakdown_parts import arounds
from latencytrace.service.cohort import Cohort
from latencytrace.service.stores.chdb.store import ChdbStore

store = ChdbStore.open(Path(sys.argv[1]))
print(len(arounds(store, Cohort())["quantiles"]), "pyarrow" in sys.modules)
store.close()
"""


def test_requests_around_quantiles_are_summed_without_pyarrow(tmp_path: Path) -> None:
    store = ChdbStore.open(tmp_path)
    requests = (
        made_request(1000 + number, trace_id=f"{number + 1:032x}") for number in range(200)
    )
    write(store, list(requests), [])
    store.close()

    asked = subprocess.run(
        [sys.executable, "-c", _AROUND, tmp_path], capture_output=True, text=True, check=True
    )

    assert asked.stdout == "3 False\n"  # importing it would be a third of a page's first load


def test_the_names_of_all_stages_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ChdbStore.open(tmp_path)
    named = (Stage.APPLICATION, Stage.OTHER, Stage.QUEUE)
    write(store, [made_request(stages=dict.fromkeys(named, 10))], [])
    ask, asked = store._readers.query, list[str]()

    def seen(sql: str, answer_format: str, parameters: dict[str, object]) -> bytes:
        asked.append(sql)
        return ask(sql, answer_format, parameters)

    monkeypatch.setattr(store._readers, "query", seen)

    found = store.breakdown(Cohort())

    assert {row.stage: [part.name for part in row.parts] for row in found.stages} == {
        stage: [f"a span of {stage}"] for stage in named
    }
    assert sum("Segments" in sql for sql in asked) == 1
    store.close()


@pytest.mark.parametrize(
    "setting",
    [
        "merge_selector_base",
        "min_bytes_for_wide_part",
        "vertical_merge_algorithm_min_rows_to_activate",
    ],
)
def test_tables_of_an_older_folder_get_the_settings_of_new_ones(
    tmp_path: Path, setting: str
) -> None:
    ChdbStore.open(tmp_path).close()
    assert sql(tmp_path, OLD_SETTINGS) == ""
    sql(tmp_path, f"ALTER TABLE {SPANS} RESET SETTING {setting}")
    assert sql(tmp_path, OLD_SETTINGS) == f"{SPANS}\n"

    ChdbStore.open(tmp_path).close()

    assert sql(tmp_path, OLD_SETTINGS) == ""


def test_a_start_rewrites_no_definition_that_is_of_today(tmp_path: Path) -> None:
    a_folder_with_one_span(tmp_path)
    definitions = {file: file.stat() for file in tmp_path.rglob("*.sql")}

    ChdbStore.open(tmp_path).close()

    assert len(definitions) >= len(UUIDS)
    now = {file: file.stat() for file in definitions}
    for file, before in definitions.items():
        assert (now[file].st_ino, now[file].st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_tables_of_an_older_folder_get_the_columns_of_new_ones(tmp_path: Path) -> None:
    a_folder_with_one_span(tmp_path)
    sql(tmp_path, f"ALTER TABLE {WINDOWS} DROP COLUMN Named")
    sql(tmp_path, f"ALTER TABLE {SPANS} DROP COLUMN ServiceInstance")

    ChdbStore.open(tmp_path).close()

    assert list(missing_columns(sql(tmp_path, COLUMNS).encode())) == []
    assert spans_in(tmp_path) == 1


def test_a_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"

    ChdbStore.open(folder).close()

    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_closed_store_opens_again_with_all_it_kept(tmp_path: Path) -> None:
    a_folder_with_one_span(tmp_path)

    assert spans_in(tmp_path) == 1


def test_nothing_is_left_where_the_process_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    started.mkdir()
    monkeypatch.chdir(started)

    a_folder_with_one_span(tmp_path / "data")

    assert list(started.iterdir()) == []


def test_a_folder_in_use_names_its_owner_and_what_to_do(tmp_path: Path) -> None:
    store = ChdbStore.open(tmp_path)

    with pytest.raises(StoreInUseError, match=rf"process {os.getpid()}: .*--data"):
        ChdbStore.open(tmp_path)

    store.close()


def test_another_process_is_kept_out_before_the_engine_starts(tmp_path: Path) -> None:
    store = ChdbStore.open(tmp_path)
    other = _child(f"ChdbStore.open(Path({str(tmp_path)!r}))")

    _, errors = other.communicate(timeout=100)

    assert (
        f"StoreInUseError: the data folder {tmp_path} belongs to process {os.getpid()}" in errors
    )
    store.close()


@pytest.mark.parametrize("used_before", [False, True])
def test_a_second_folder_in_one_process_is_an_error_that_says_so(
    tmp_path: Path, *, used_before: bool
) -> None:
    second = tmp_path / "second"
    if used_before:
        a_folder_with_one_span(second)
    store = ChdbStore.open(tmp_path / "first")

    with pytest.raises(StoreError, match="one at a time"):
        ChdbStore.open(second)

    store.close()
    assert spans_in(second) == used_before


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match="file/folder cannot be used"):
        ChdbStore.open(tmp_path / "file" / "folder")


# Death


INSERTING = """
store = ChdbStore.open(Path({folder!r}))
for number in itertools.count(1):
    spans = [one_span(f"{{number:032x}}", f"{{i:016x}}") for i in range(1, 51)]
    store.insert([columns(otlp(*spans))])
    print(number, flush=True)
"""


@pytest.mark.long
def test_what_was_acknowledged_survives_a_kill_and_is_there_once(tmp_path: Path) -> None:
    acknowledged = 0
    for _ in range(3):
        child = _child(INSERTING.format(folder=str(tmp_path)))
        assert child.stdout
        lines = [line for _, line in zip(range(12), child.stdout, strict=False)]
        child.kill()
        lines += child.stdout.readlines()
        child.communicate(timeout=100)
        acknowledged = max(acknowledged, len([line for line in lines if line.endswith("\n")]))

    store = ChdbStore.open(tmp_path)
    traces = [f"{number:032x}" for number in range(1, acknowledged + 1)]
    arrived = store.arrived(traces)

    assert acknowledged >= 12
    assert {trace: len(arrived[trace]) for trace in traces} == dict.fromkeys(traces, 50)
    assert set(traces) <= set(store.unassembled())
    store.close()


def _child(body: str) -> subprocess.Popen[str]:
    imports = (
        "import itertools\nfrom pathlib import Path\n"
        "from latencytrace.service.stores.chdb.store import ChdbStore\n"
        "from tests.support.builders.spans.otlp_messages import columns, one_span, otlp\n"
        "from tests.support.tables.ledger_tables import write\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", imports + body],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[4],
    )


# Torn files


def empty(path: Path) -> None:
    path.write_bytes(b"")


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("tear", few(1, [halve, empty, Path.unlink]))
@pytest.mark.parametrize(
    "name", ["latencytrace.sql", "span_arrivals.sql", "requests.sql", "format_version.txt"]
)
def test_torn_definitions_are_made_anew_over_the_same_rows(
    tmp_path: Path, name: str, tear: Callable[[Path], None]
) -> None:
    a_folder_with_one_span(tmp_path)
    for torn in (tmp_path / ENGINE).rglob(name):
        tear(torn)

    assert spans_in(tmp_path) == 1


@pytest.mark.parametrize("name", few(1, ["data.bin", "primary.cidx", "columns.txt", "count.txt"]))
def test_a_torn_part_is_set_aside_with_a_message_and_the_rest_is_read(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    a_folder_with_one_span(tmp_path)
    (part,) = (tmp_path / ENGINE / "store").glob(
        f"*/{UUIDS['latencytrace.span_arrivals']}/*_1_1_0"
    )
    a_folder_with_one_span(tmp_path)
    halve(part / name)

    with caplog.at_level(logging.WARNING):
        assert spans_in(tmp_path) == 1

    assert "set aside in its folder" in caplog.text


# The tables


def test_a_column_that_a_new_version_needs_is_added_to_an_old_table(tmp_path: Path) -> None:
    a_folder_with_one_span(tmp_path)
    for column in ("DecodeNs", "Health"):
        sql(tmp_path, f"ALTER TABLE latencytrace.requests DROP COLUMN {column}")

    store = ChdbStore.open(tmp_path)

    assert store.breakdown(Cohort()).requests == 0
    store.close()


def test_what_the_collector_writes_is_read_as_strings(tmp_path: Path) -> None:
    ChdbStore.open(tmp_path).close()
    sql(
        tmp_path,
        "INSERT INTO latencytrace.spans (Timestamp, TraceId, SpanId, SpanName, ServiceName, "
        "ResourceAttributes, SpanAttributes, Duration, `Events.Timestamp`, `Events.Name`, "
        "`Events.Attributes`, `Links.TraceId`, `Links.SpanId`, `Links.TraceState`, "
        "`Links.Attributes`) VALUES "
        "(1763690000, '0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331', 'x', 'rag', "
        "map('service.instance.id', 'pod-1'), map('n', '1'), 5, [1763690000], ['e'], "
        "[map('k', 'v')], ['a'], ['b'], [''], [map('l', 'w')])",
    )

    store = ChdbStore.open(tmp_path)
    (span,) = store.kept_spans(TRACE)
    store.close()

    assert (span.instance, span.attributes, span.end_ns - span.start_ns) == (
        "pod-1",
        {"n": "1"},
        5,
    )
    assert (span.events[0].attributes, span.links[0].attributes) == ({"k": "v"}, {"l": "w"})


def test_arrivals_are_readable_by_the_collectors_names(tmp_path: Path) -> None:
    store = ChdbStore.open(tmp_path)
    store.insert([columns(otlp(one_span(attributes={"n": 1, "list": ("a", 2)})))])
    store.close()

    answer = sql(
        tmp_path,
        "SELECT SpanAttributes['n'], SpanAttributes['list'], SpanKind, StatusCode, Duration, "
        "ResourceAttributes['service.name'] FROM latencytrace.span_arrivals",
    )

    assert answer == '1\t["a",2]\tServer\tUnset\t1000\trag\n'


# Threads


@pytest.mark.long
def test_readers_and_writers_of_many_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    store = ChdbStore.open(tmp_path)
    numbers = itertools.count(1)
    lock = threading.Lock()

    def use(_: int) -> int:
        with lock:
            trace_id = f"{next(numbers):032x}"
        store.insert([columns(otlp(one_span(trace_id)))])
        store.breakdown(Cohort())
        return len(store.arrived([trace_id]))

    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(use, range(24)))

    assert found == [1] * 24
    store.close()


# Parameters


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, r"\N"),
        (2**64 - 1, "18446744073709551615"),
        ("a\\b\tc\nd'", r"a\\b\tc\nd'"),
        ([], "[]"),
        (["a", "b'\\"], r"['a','b\'\\']"),
    ],
)
def test_values_are_bound_in_the_engines_writing(value: object, text: str) -> None:
    assert bound_text(value) == text


@pytest.mark.parametrize(
    "name", few(2, ["ü'; DROP TABLE x", "\t\n\r\0", "'", "\\", "{x:String}", "\\N"])
)
def test_any_text_can_be_asked_for(tmp_path: Path, name: str) -> None:
    store = ChdbStore.open(tmp_path)

    assert store.arrived([name, f"{name}2"]) == {}
    assert store.breakdown(Cohort(service=name, route=name)).requests == 0
    assert list(store.routes(name)) == []
    store.close()


# Spans that are kept

KEPT = "SELECT count() FROM latencytrace.spans"


def test_spans_that_are_kept_are_copied_when_the_store_closes(tmp_path: Path) -> None:
    store = ChdbStore.open(tmp_path)
    store.insert([columns(otlp(SPAN))])
    write(store, [], [TRACE])
    store.close()

    assert int(sql(tmp_path, KEPT)) == 1
    assert not (tmp_path / TO_KEEP).exists()


def test_many_are_copied_at_once(tmp_path: Path) -> None:
    store = ChdbStore.open(tmp_path)
    store.insert([columns(otlp(SPAN))])
    write(store, [], [TRACE, *(f"{number:032x}" for number in range(1, MOST_TO_KEEP))])

    noted = (tmp_path / TO_KEEP).exists()
    store.close()

    assert not noted
    assert int(sql(tmp_path, KEPT)) == 1


def test_a_trace_is_known_by_its_request_where_no_span_is_left(tmp_path: Path) -> None:
    with closing(ChdbStore.open(tmp_path)) as store:
        write(store, [made_request(trace_id=f"{1:032x}")], [])

        assert [ids.tolist() for ids in store.known_traces()] == [[[0, 1]]]


def test_what_a_process_that_died_had_noted_is_copied_by_the_next(tmp_path: Path) -> None:
    dies = (
        "import os\n"
        f"store = ChdbStore.open(Path({str(tmp_path)!r}))\n"
        "store.insert([columns(otlp(one_span()))])\n"
        f"write(store, [], [{TRACE!r}])\n"
        "os._exit(7)"
    )
    child = _child(dies)
    child.communicate()
    assert child.returncode == 7
    assert (tmp_path / TO_KEEP).exists()

    store = ChdbStore.open(tmp_path)
    shown = store.kept_spans(TRACE)
    store.keep_noted()
    store.close()

    assert shown == (SPAN,)
    assert int(sql(tmp_path, KEPT)) == 1


# Shared steps


def test_a_step_of_an_earlier_run_is_done_though_it_never_has_a_request(tmp_path: Path) -> None:
    folder, old, new = tmp_path, "1" * 32, "2" * 32
    store = ChdbStore.open(folder)
    store.insert([columns(otlp(one_span(new, attributes={semconv.SHARED: True})))])
    write(store, [made_request()], [])
    store.close()
    table = "latencytrace.span_arrivals"
    sql(
        folder,
        f"INSERT INTO {table} SELECT * REPLACE ('{old}' AS TraceId, "  # noqa: S608 - our own names
        f"Arrived - INTERVAL 5 MINUTE AS Arrived) FROM {table}",
    )

    store = ChdbStore.open(folder)
    unassembled = store.unassembled()
    store.close()

    assert list(unassembled) == [new]
