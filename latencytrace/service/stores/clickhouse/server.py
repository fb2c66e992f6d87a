"""A ClickHouse server, asked over HTTP, in the place of the embedded engine.

An insert is one request with a token: sent again after a lost answer, it is kept once
(but where all attempts have failed). Reasons that pass by themselves are waited for a few times;
for longer, the service keeps spans in its journal.

Several services may write to one database. Each row names its writer, and each service
resumes after a restart what it wrote itself.
"""

import random
import re
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Final, Self
from uuid import uuid4

import httpx
import orjson

from latencytrace.errors import PoisonedBlockError, SettingsError, StoreError
from latencytrace.service.clock import now_ns
from latencytrace.service.sql.tables import (
    COLUMNS,
    DATABASE,
    REQUESTS,
    UUIDS,
    Target,
    local_engine,
    missing_columns,
    replicated_engine,
    table_definitions,
)
from latencytrace.service.sql_store.engine import (
    READ_SECONDS,
    UNREADABLE,
    bound_text,
    literal,
    shortened,
)
from latencytrace.service.storage.private_files import owned, read_private, write_private
from latencytrace.service.store import DamagedPart
from latencytrace.service.stores.clickhouse.address import ServerAddress

PAUSES_S: Final = (0.1, 0.4, 1.6)  # before what failed is asked again
_AT_ONCE: Final = (0.0,)  # a connection that was kept may have been closed meanwhile
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = READ_SECONDS + 10.0  # to a reader: the server gives up before
_LONGEST_S: Final = 120.0  # to the service itself, which asks for much when it starts
_INSERT_S: Final = 20.0  # a block that has not been taken by then is sent again
_AT_THE_END_S: Final = 3.0  # once the service ends
_NOT_AGAIN_S: Final = 0.2  # after a server gave no answer
_MS: Final = 1_000_000
_HOUR_MS: Final = 3_600_000  # partitions begin at full ones
_WRITER: Final = "writer"  # the file with this service's id

# What users' profiles may have otherwise, and our questions need.
_SETTINGS: Final[Mapping[str, int]] = {
    "async_insert": 0,  # answered before it is kept
    "join_use_nulls": 0,
    "max_query_size": 256 * 1024 * 1024,  # keys of requests stand in some
    "output_format_json_quote_64bit_integers": 0,
    "wait_end_of_query": 1,  # no answer begins before it is known to be whole
}
_PASSING: Final = frozenset(  # codes of faults that pass by themselves
    {
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        225,  # NO_ZOOKEEPER
        242,  # TABLE_IS_READ_ONLY
        252,  # TOO_MANY_PARTS
        319,  # UNKNOWN_STATUS_OF_INSERT
        999,  # KEEPER_EXCEPTION
    }
)
_PASSING_STATUSES: Final = frozenset({429, 502, 503, 504})  # of a proxy
_READ_ONLY: Final = frozenset({164})
_NOT_GRANTED: Final = frozenset({497})
_UNKNOWN_DATABASE: Final = 81
_REFUSED: Final = frozenset({192, 193, 194, 516})  # user or password

# A block that was taken is known by its token for so many blocks.
TABLE_SETTINGS: Final = "non_replicated_deduplication_window = 1000"
_COMMENT: Final = "made by latencytrace"
_TABLES: Final = tuple(name.partition(".")[2] for name in UUIDS)
_OUR_TABLE: Final = re.compile(rf"\b{DATABASE}\.({'|'.join(_TABLES)})\b")
_OUR_DATABASE: Final = f"database = '{DATABASE}'"
_PARAMETER: Final = re.compile(r"\{(\w+):([^{}]+)\}")
_INSERT: Final = httpx.Timeout(_INSERT_S, connect=_CONNECT_S)
_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


class Ending:
    """The end of the service, which a server that hangs must not hold up.

    What is not stored by then waits in the journal for the next start.
    """

    def __init__(self) -> None:
        self.began = threading.Event()
        self.has_failed = False  # the server, lately

    def limit(self, timeout: httpx.Timeout) -> httpx.Timeout:
        """Return how long to wait for an answer."""
        if not self.began.is_set():
            self.has_failed = False
            return timeout
        return httpx.Timeout(_NOT_AGAIN_S if self.has_failed else _AT_THE_END_S)

    def wait(self, pause_s: float) -> bool:
        """Wait before what failed is asked again; true: do not."""
        return self.began.wait(pause_s)


class Server:
    """A database on a server, with our tables.

    Args:
        address: Address of the server and name of the database.
        lock: The open lock file of the data folder.
        writer: The id of this service.
    """

    def __init__(self, address: ServerAddress, lock: IO[str], writer: str = "") -> None:
        self.writer = writer
        self._address = address
        self._lock = lock
        self._ending = Ending()
        self._client = httpx.Client(
            base_url=address.url,
            auth=httpx.BasicAuth(address.user, address.password),
            verify=_trusted(address),
            headers={"user-agent": "latencytrace", "accept-encoding": "identity"},
            trust_env=False,
        )

    @classmethod
    def open(cls, address: ServerAddress, folder: Path, lock: IO[str] | None = None) -> Self:
        """Lock a folder, and make the tables that the database lacks.

        Args:
            address: Address of the database; made where there is none.
            folder: The data folder, for what is not in the database.
            lock: Lock of the folder, where it is locked already.

        Raises:
            StoreInUseError: Another process owns the folder.
            StoreError: The server does not answer, or does not let us have our tables.
        """
        lock = owned(folder.absolute()) if lock is None else lock
        try:
            server = cls(address, lock, writer_of(folder))
        except BaseException:
            lock.close()
            raise
        try:
            server.prepare()
        except BaseException:
            server.close()
            raise
        return server

    def connect(self, **settings: int) -> "ServerConnection":
        # A reader learns at once that there is no answer.
        only_reads = "readonly" in settings
        return ServerConnection(
            self._client,
            self._address,
            {**_SETTINGS, **settings},
            _ANSWER_S if only_reads else _LONGEST_S,
            _AT_ONCE if only_reads else PAUSES_S,
            self._ending,
            self.writer,
        )

    def only_reading(self) -> "ServerConnection":
        """A connection that sets nothing, for users without the right to."""
        whole = {"wait_end_of_query": 1}
        return ServerConnection(
            self._client, self._address, whole, _LONGEST_S, PAUSES_S, self._ending
        )

    def damaged_parts(self) -> Sequence[DamagedPart]:
        """Return none: the server mends its own tables, or has copies of them."""
        return ()

    def lost_parts(self) -> int:
        return 0

    def hurry(self) -> None:
        """Wait no longer for the server: one that hangs does not delay the end."""
        self._ending.began.set()

    def close(self) -> None:
        self.hurry()
        self._client.close()
        self._lock.close()

    def prepare(self) -> None:
        """Make the tables that the database lacks.

        Raises:
            StoreError: The server does not answer, or does not let us have them.
        """
        connection = self.connect()
        database, cluster = self._address.database, self._address.cluster
        if cluster is not None:
            _check_cluster(connection, cluster)
        everywhere = "" if cluster is None else f" ON CLUSTER '{cluster}'"
        there = connection.query(
            f"SELECT count() FROM system.databases WHERE name = '{database}'",  # noqa: S608 - a checked name
            "TSV",
        )
        if there.strip() not in {b"0", b"1"}:
            raise StoreError(f"{self._address.url} is no ClickHouse: it does not answer as one")
        if there.strip() == b"0":
            connection.query(f"CREATE DATABASE IF NOT EXISTS {database}{everywhere}", "Null")
        found = self._tables(connection)
        engine = local_engine if cluster is None else replicated_engine
        for table, definition in table_definitions(engine, TABLE_SETTINGS):
            if table not in found:
                connection.query(
                    f"CREATE TABLE IF NOT EXISTS {table}{everywhere} {definition} "
                    f"COMMENT '{_COMMENT}'",
                    "Null",
                )
        if found:
            for statement in missing_columns(connection.query(COLUMNS, "TSV")):
                connection.query(statement, "Null")

    def _tables(self, connection: "ServerConnection") -> set[str]:
        """Those of our tables that there are.

        Raises:
            StoreError: A table with the name of one of ours has another form.
        """
        lines = connection.query(
            f"SELECT name, comment = '{_COMMENT}' FROM system.tables "  # noqa: S608 - our own texts
            f"WHERE {_OUR_DATABASE}",
            "TSV",
        )
        ours = dict(line.split("\t") for line in lines.decode().splitlines())
        others = [name for name in _TABLES if ours.get(name) == "0"]
        if others:
            raise StoreError(
                f"the table {self._address.database}.{others[0]} at {self._address.url} is not "
                "ours: name another database for the store"
            )
        return {f"{DATABASE}.{name}" for name in _TABLES if name in ours}


class ServerConnection:
    """Questions with settings of their own, over connections that are shared and kept.

    Args:
        address: Address of the server and name of the database.
        longest_s: The longest that a question may take, in seconds.
        pauses_s: Before what failed for a reason that passes is asked again, each.
        writer: The id of this service.
    """

    def __init__(
        self,
        client: httpx.Client,
        address: ServerAddress,
        settings: Mapping[str, int],
        longest_s: float,
        pauses_s: Sequence[float],
        ending: Ending,
        writer: str = "",
    ) -> None:
        self._client = client
        self._address = address
        self._settings = settings
        self._timeout = httpx.Timeout(longest_s, connect=_CONNECT_S)
        self._pauses_s = pauses_s
        self._ending = ending
        self._writer = writer

    def query(
        self, sql: str, answer_format: str, parameters: Mapping[str, object] | None = None
    ) -> bytes:
        text, bound = _spelled_out(self._named(sql), parameters or {})
        also = {"default_format": answer_format, **bound}
        return self._answer(text.encode, also).content

    def insert(
        self,
        target: Target,
        block: bytes,
        rows: int,
        arrived_ms: int | None = None,
        token: str = "",
    ) -> None:
        if not block:
            return
        # One token for all attempts, so that the server keeps one of them.
        also = {"insert_deduplication_token": token or uuid4().hex}
        statement = partial(self._statement, target, arrived_ms, now_ns() // _MS)
        answer = self._answer(lambda: statement() + block, also, inserts=True)
        written = _rows_written(answer)
        if written is not None and written < rows:
            raise StoreError(f"the store kept {written} of {rows} rows: they are inserted again")

    def _statement(self, target: Target, arrived_ms: int | None, first_ms: int) -> bytes:
        if arrived_ms is None and target.table != REQUESTS and "Arrived" not in target.columns:
            # By this machine's clock, like the ledgers: the server's may be another. Made for
            # each attempt, since a ledger that lacks these spans may have been written meanwhile.
            # In the hour of the first attempt: in another partition it would not be known again.
            arrived_ms = min(now_ns() // _MS, first_ms - first_ms % _HOUR_MS + _HOUR_MS - 1)
        writer = "" if "Writer" in target.columns else self._writer
        return self._named(target.insert_statement(None, arrived_ms, writer)).encode()

    def _named(self, sql: str) -> str:
        """A text of SQL with the name of this database, of which its constants have another."""
        database = self._address.database
        if database == DATABASE:
            return sql
        named = sql.replace(_OUR_DATABASE, f"database = '{database}'")
        return _OUR_TABLE.sub(rf"{database}.\1", named)

    def _answer(
        self, content: Callable[[], bytes], also: Mapping[str, str], *, inserts: bool = False
    ) -> httpx.Response:
        asked = {**{name: str(value) for name, value in self._settings.items()}, **also}
        usual = _INSERT if inserts else self._timeout
        for pause_s in (*self._pauses_s, None):
            try:
                answer = self._client.post(
                    "/", params=asked, content=content(), timeout=self._ending.limit(usual)
                )
            except (
                httpx.HTTPError,
                UnicodeError,
            ) as error:  # the latter: no name of a host
                fault: StoreError = _unanswered(self._address, error)
                self._ending.has_failed = True
                if isinstance(error, httpx.ReadTimeout) and not inserts:
                    raise fault from None  # asked again, it would take as long, and run twice
            else:
                if answer.is_success:
                    return answer
                fault, passes = _fault(self._address, answer, inserts=inserts)
                if not passes:
                    raise fault
            # Waiting callers come back at different moments.
            if pause_s is None or self._ending.wait(pause_s * random.uniform(0.5, 1.5)):  # noqa: S311 - no secret
                raise fault
        raise AssertionError("the last round returns or raises")


def writer_of(folder: Path) -> str:
    """The id of the service that owns this data folder, kept in it.

    Raises:
        StoreError: It cannot be read or written.
    """
    path = folder / _WRITER
    try:
        with suppress(FileNotFoundError):
            known = read_private(path).decode("ascii", "replace").strip()
            if _ID.fullmatch(known):
                return known
            raise StoreError(f"{path} holds no id of a service: remove it, or put it back")
        made = uuid4().hex
        write_private(path, f"{made}\n".encode())
    except OSError as error:
        raise StoreError(f"{path} cannot be used: {error}") from error
    return made


def _check_cluster(connection: ServerConnection, cluster: str) -> None:
    lines = connection.query(
        "SELECT cluster, uniqExact(shard_num) FROM system.clusters GROUP BY cluster", "TSV"
    )
    shards = dict(line.split("\t") for line in lines.decode().splitlines())
    if cluster not in shards:
        raise StoreError(
            f"the server knows no cluster {cluster!r}, but {', '.join(sorted(shards)) or 'none'}"
        )
    if int(shards[cluster]) > 1:
        raise StoreError(
            f"the cluster {cluster!r} has {shards[cluster]} shards, and the store takes one, with "
            "as many replicas as you like: name a cluster of one shard"
        )


def _spelled_out(sql: str, parameters: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """A question with its lists within it, and what else it binds.

    What is bound goes into the address, where a list of ids would have no room.
    """
    lists = {
        name: value
        for name, value in parameters.items()
        if value is not None and not isinstance(value, str | int | float)
    }

    def spelled(found: re.Match[str]) -> str:
        name, kind = found.groups()
        if name not in lists:
            return found[0]
        return f"CAST({bound_text(lists[name])}, {literal(kind)})"

    bound = {
        f"param_{name}": bound_text(value)
        for name, value in parameters.items()
        if name not in lists
    }
    return _PARAMETER.sub(spelled, sql), bound


def _rows_written(answer: httpx.Response) -> int | None:
    """How many rows were written; None: a proxy has taken that away."""
    summary = answer.headers.get("x-clickhouse-summary")
    found = None if summary is None else orjson.loads(summary).get("written_rows")
    return None if found is None else int(found)


def _trusted(address: ServerAddress) -> ssl.SSLContext | bool:
    if not address.secure:
        return False
    try:
        return ssl.create_default_context(cafile=address.authorities)
    except OSError as error:
        raise SettingsError(
            f"ca_cert={address.authorities} cannot be read: {error.strerror or error}"
        ) from None


def _unanswered(address: ServerAddress, error: Exception) -> StoreError:
    text = str(error) or type(error).__name__
    advice = "look whether it runs, and whether this is its port of HTTP"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        advice = "name a file with the authority of its certificate, ca_cert=FILE"
    elif "SSL" in text:
        advice = "does it speak TLS there? Without secure=1 it is asked without"
    return StoreError(f"ClickHouse at {address.url} does not answer ({text}): {advice}")


def _fault(
    address: ServerAddress, answer: httpx.Response, *, inserts: bool
) -> tuple[StoreError, bool]:
    """Return the fault that an answer names, and whether it may pass by itself."""
    header = answer.headers.get("x-clickhouse-exception-code", "")
    code = int(header) if header.isdecimal() else None
    text = shortened(answer.text.strip()) or f"status {answer.status_code}"
    where = f"ClickHouse at {address.url}"
    if code is None:
        passes = answer.status_code in _PASSING_STATUSES
        return StoreError(f"{where} answered {answer.status_code}: {text}"), passes
    if inserts and code in UNREADABLE:  # of a question it is a part of the store's
        return PoisonedBlockError(f"the store cannot read the block: {text}"), False
    if code in _REFUSED:
        text = (
            f"{where} refuses the user {address.user!r} or its password: set the password in "
            "LATENCYTRACE_CLICKHOUSE_PASSWORD, or name a file in "
            "LATENCYTRACE_CLICKHOUSE_PASSWORD_FILE"
        )
    elif code in _READ_ONLY:
        text = (
            f"{where} lets the user {address.user!r} only read: name one that may write to the "
            f"database {address.database}, and change settings ({text})"
        )
    elif code in _NOT_GRANTED:
        text = f"{where} does not let the user {address.user!r} do what the store needs: {text}"
    elif code == _UNKNOWN_DATABASE:
        text = f"{where} has no database {address.database} any more: start the service again"
    else:
        text = f"the store failed: {text}"
    return StoreError(text), code in _PASSING
