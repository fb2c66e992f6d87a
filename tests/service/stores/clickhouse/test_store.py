"""What the store on a ClickHouse server promises beyond the contract."""

import logging
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast
from uuid import uuid4

import httpx
import pytest

from latencytrace.errors import PoisonedBlockError, SettingsError, StoreError, StoreInUseError
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql.native import ARRIVED
from latencytrace.service.sql.tables import COUNT, replicated_engine, table_definitions
from latencytrace.service.store import Store, open_store
from latencytrace.service.stores.clickhouse.address import ServerAddress
from latencytrace.service.stores.clickhouse.server import (
    TABLE_SETTINGS,
    Ending,
    ServerConnection,
)
from latencytrace.service.stores.clickhouse.store import ClickHouseStore
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.otlp_messages import TRACE, columns, one_span, otlp
from tests.support.clickhouse.front import (
    FAIL,
    INSERTS,
    LOSE,
    PASSWORD,
    READER,
    ClickHouseFront,
)
from tests.support.servers.command_line import listening
from tests.support.servers.ports import free_port
from tests.support.tables.ledger_tables import write

WRONG = "hunter2"
CLUSTERS = """<clickhouse><remote_servers>
<one_shard><shard>
  <replica><host>127.0.0.1</host><port>9</port></replica>
  <replica><host>127.0.0.2</host><port>9</port></replica>
</shard></one_shard>
<two_shards>
  <shard><replica><host>127.0.0.1</host><port>9</port></replica></shard>
  <shard><replica><host>127.0.0.2</host><port>9</port></replica></shard>
</two_shards>
</remote_servers>
<zookeeper><implementation>testkeeper</implementation></zookeeper>
<macros><shard>1</shard><replica>first</replica></macros>
</clickhouse>"""


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseFront]:
    folder = tmp_path_factory.mktemp("clickhouse")
    config = folder / "clusters.xml"
    config.write_text(CLUSTERS)
    with ClickHouseFront(folder / "engine", config=config) as started:
        yield started


@pytest.fixture
def store(front: ClickHouseFront, tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(front.url(f"at_{tmp_path.name.replace('-', '_')}"), tmp_path)) as it:
        yield it


def connection(store: Store) -> ServerConnection:
    """One to have the server itself do something."""
    return cast(ServerConnection, cast(ClickHouseStore, store)._assembler)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for loopback and its key."""
    held, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", key, "-out", held, "-days", "2", "-subj", "/CN=clickhouse"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return held, key


# Opening


def test_a_folder_alone_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="clickhouse://HOST"):
        open_store("clickhouse", tmp_path)


def test_what_was_kept_is_there_when_it_is_opened_again(
    front: ClickHouseFront, tmp_path: Path
) -> None:
    for _ in range(2):
        with closing(open_store(front.url("again"), tmp_path)) as store:
            store.insert([columns(otlp(one_span()))])
            write(store, [made_request()], [TRACE])

    with closing(open_store(front.url("again"), tmp_path)) as store:
        assert store.arrived_counts([TRACE]) == {TRACE: 2}
        assert store.kept_counts([TRACE]) == {TRACE: 1}
        assert store.count(Cohort(since_ns=0)) == 1


def test_a_data_folder_serves_one_process(front: ClickHouseFront, tmp_path: Path) -> None:
    with (
        closing(open_store(front.url("folder"), tmp_path)),
        pytest.raises(StoreInUseError, match="--data"),
    ):
        open_store(front.url("folder"), tmp_path)


def test_a_wrong_password_is_said_without_it(front: ClickHouseFront, tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"refuses the user 'writer'.*CLICKHOUSE_PASSWORD"
    ) as said:
        open_store(front.url(password=WRONG), tmp_path)

    assert WRONG not in str(said.value)
    open_store(front.url(), tmp_path).close()  # the folder is free again


def test_a_user_who_may_only_read_is_told_what_is_missing(
    front: ClickHouseFront, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match=r"lets the user 'reader' only read.*may write") as said:
        open_store(front.url(user=READER), tmp_path)

    assert PASSWORD not in str(said.value)


def test_a_server_that_does_not_run_is_named_without_the_password(tmp_path: Path) -> None:
    port = free_port()

    with pytest.raises(
        StoreError, match=f"http://127.0.0.1:{port} does not answer .*refused"
    ) as said:
        open_store(f"clickhouse://bob:hunter2@127.0.0.1:{port}/x", tmp_path)

    assert "hunter2" not in str(said.value)


def test_a_server_is_asked_over_tls_where_its_authority_is_known(tmp_path: Path) -> None:
    held, key = certificate(tmp_path)
    folder = tmp_path / "data"
    with ClickHouseFront(tmp_path / "engine", held, key) as front:
        with pytest.raises(StoreError, match=r"CERTIFICATE_VERIFY_FAILED.*ca_cert=FILE"):
            open_store(front.url(options="?secure=1"), folder)
        with closing(open_store(front.url(options=f"?secure=1&ca_cert={held}"), folder)) as store:
            store.insert([columns(otlp(one_span()))])
            assert store.arrived_counts([TRACE]) == {TRACE: 1}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param("?secure=1", "does it speak TLS there", id="no TLS"),
        pytest.param(
            "?secure=1&ca_cert=/no/file", "ca_cert=/no/file cannot be read", id="no authorities"
        ),
        pytest.param(
            "?cluster=prod", "no cluster 'prod', but one_shard, two_shards", id="no cluster"
        ),
        pytest.param(
            "?cluster=two_shards", "'two_shards' has 2 shards, and the store takes", id="shards"
        ),
        # The engine passes on no definitions: it reads one, finds the cluster, and ends there.
        pytest.param("?cluster=one_shard", "DDL queries are disabled", id="definitions"),
    ],
)
def test_options_that_cannot_be_are_refused_with_the_reason(
    front: ClickHouseFront, tmp_path: Path, options: str, error: str
) -> None:
    with pytest.raises((SettingsError, StoreError), match=error):
        open_store(front.url("replicated", options=options), tmp_path)


# Tables of others


def test_a_table_of_somebody_elses_is_left_alone(
    front: ClickHouseFront, store: Store, tmp_path: Path
) -> None:
    connection(store).query("CREATE DATABASE theirs", "Null")
    connection(store).query(
        "CREATE TABLE theirs.spans (a Int8) ENGINE = MergeTree ORDER BY a", "Null"
    )

    with pytest.raises(StoreError, match=r"theirs\.spans at .* is not ours: name another"):
        open_store(front.url("theirs"), tmp_path / "other")

    left = connection(store).query("SHOW TABLES FROM theirs", "TSV")
    assert left.split() == [b"spans"]


def test_retention_sees_no_table_of_others(store: Store) -> None:
    theirs = f"{connection(store)._address.database}.theirs"
    connection(store).query(
        f"CREATE TABLE {theirs} ENGINE = MergeTree PARTITION BY a ORDER BY a "
        "AS SELECT toDate('2020-01-01') AS a",
        "Null",
    )
    write(store, [made_request()], [])

    partitions = store.partitions()
    for one in partitions:
        store.drop(one)

    assert [str(one.table) for one in partitions] == ["requests"]
    assert store.partitions() == []
    assert connection(store).query(COUNT.format(table=theirs), "TSV") == b"1\n"


# Clusters


def test_the_tables_of_a_cluster_are_made_with_a_keeper(store: Store) -> None:
    # As a server makes them that was sent the definitions: with an id that is the same on all.
    # One in memory keeps what replicas share; they take nothing, for the engine serves no others.
    server = connection(store)
    server.query("CREATE DATABASE copies", "Null")
    made = dict(table_definitions(replicated_engine, TABLE_SETTINGS))
    for table, definition in made.items():
        name = table.partition(".")[2]
        server.query(f"CREATE TABLE copies.{name} UUID '{uuid4()}' {definition}", "Null")

    copies = server.query(
        "SELECT name, engine, uniqExact(zookeeper_path) OVER (), replica_name FROM system.tables "
        "JOIN system.replicas USING (database, uuid) WHERE database = 'copies' ORDER BY name",
        "TSV",
    )

    assert [line.split("\t") for line in copies.decode().splitlines()] == [
        [name, f"Replicated{family}", str(len(made)), "first"]
        for name, family in (
            ("request_rollups", "MergeTree"),
            ("requests", "ReplacingMergeTree"),
            ("rollup_windows", "ReplacingMergeTree"),
            ("span_arrivals", "MergeTree"),
            ("spans", "MergeTree"),
        )
    ]


# Faults


def test_a_block_whose_answer_is_lost_is_kept_once(front: ClickHouseFront, store: Store) -> None:
    executed = int(front.told(INSERTS))
    front.told(LOSE)

    store.insert([columns(otlp(one_span(), one_span(span_id="2" * 16)))])

    assert int(front.told(INSERTS)) == executed + 2
    assert store.arrived_counts([TRACE]) == {TRACE: 2}


def test_a_block_that_comes_twice_is_counted_twice(store: Store) -> None:
    block = columns(otlp(one_span()))

    store.insert([block])
    store.insert([block])

    assert store.arrived_counts([TRACE]) == {TRACE: 2}


@pytest.mark.parametrize("code", [202, 242, 252, 999])
def test_a_fault_that_passes_is_waited_for(
    front: ClickHouseFront, store: Store, code: int
) -> None:
    front.told(f"{FAIL}{code}")
    front.told(f"{FAIL}{code}")

    store.insert([columns(otlp(one_span()))])

    assert store.arrived_counts([TRACE]) == {TRACE: 1}


def test_a_fault_that_stays_is_said_at_once(front: ClickHouseFront, store: Store) -> None:
    front.told(f"{FAIL}243")

    with pytest.raises(StoreError, match="Code: 243"):
        store.insert([columns(otlp(one_span()))])

    assert store.arrived_counts([TRACE]) == {}


def test_a_part_that_cannot_be_read_is_no_fault_of_a_block(
    front: ClickHouseFront, store: Store
) -> None:
    front.told(f"{FAIL}33")

    with pytest.raises(StoreError) as caught:
        store.arrived_counts([TRACE])

    assert not isinstance(caught.value, PoisonedBlockError)


def test_a_question_that_takes_too_long_is_not_asked_again() -> None:
    waited: list[float] = []

    class Never(Ending):
        def wait(self, pause_s: float) -> bool:
            waited.append(pause_s)
            return False

    with listening() as url, httpx.Client(base_url=url, trust_env=False) as client:
        address = ServerAddress.parse(url.replace("http:", "clickhouse:"))
        asked = ServerConnection(client, address, {}, 0.1, [0.0, 0.0], Never())

        with pytest.raises(StoreError, match="does not answer"):
            asked.query("SELECT 1", "TSV")

    assert waited == []


def test_a_right_that_was_taken_away_is_named(front: ClickHouseFront, store: Store) -> None:
    front.told(f"{FAIL}497")

    with pytest.raises(StoreError, match="does not let the user 'writer' do what the store needs"):
        store.count(Cohort(since_ns=0))


def test_a_torn_block_is_refused_and_nothing_of_it_is_kept(store: Store) -> None:
    with pytest.raises(PoisonedBlockError, match="cannot read the block"):
        connection(store).insert(ARRIVED, b"\x01\x01\x05Times", 1)

    assert store.partitions() == []


def test_more_ids_than_an_address_holds_can_be_asked_for(store: Store) -> None:
    store.insert([columns(otlp(one_span()))])

    ids = [f"{number:032x}" for number in range(20_000)]

    assert store.arrived_counts([*ids, TRACE]) == {TRACE: 1}
    assert store.arrived_counts([]) == {}


@pytest.mark.parametrize("name", ["'", "\\", "\t\n\r\0", "{x:String}", "\\N", "ü'; DROP TABLE x"])
def test_any_text_can_be_asked_for(store: Store, name: str) -> None:
    assert store.arrived([name, f"{name}2"]) == {}
    assert store.count(Cohort(service=name, route=name, since_ns=0)) == 0
    assert list(store.routes(name)) == []


@pytest.mark.long
def test_spans_that_cannot_be_copied_at_the_end_are_noted_for_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    with ClickHouseFront(tmp_path / "engine") as front:
        store = open_store(front.url(), folder)
        store.insert([columns(otlp(one_span()))])
        write(store, [made_request()], [TRACE])
        front.kill()
        with caplog.at_level(logging.ERROR):
            store.close()
        front.start()
        with closing(open_store(front.url(), folder)) as again:
            again.keep_noted()
            kept = again.kept_counts([TRACE])

    assert "spans are kept at the next start" in caplog.text
    assert kept == {TRACE: 1}
