"""The embedded engine: the lock of its folder, its connections, and what its faults mean."""

import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Protocol, Self, cast

from chdb import _chdb  # its own `connect` imports pyarrow, which takes 38 MB

from latencytrace.errors import PoisonedBlockError, StoreError
from latencytrace.service.sql.tables import (
    COLUMNS,
    COUNT,
    DATABASE,
    DERIVED,
    HAS_TTL,
    NEW_SETTINGS,
    NO_LONGER_USED,
    NO_TTL,
    OLD_SETTINGS,
    REQUESTS,
    TABLE_UUIDS,
    UUIDS,
    Target,
    copy_of,
    missing_columns,
    table_definitions,
    taken_over,
    written_anew,
)
from latencytrace.service.sql_store.engine import UNREADABLE, bound_text, shortened
from latencytrace.service.storage.private_files import owned, private_folder, unusable_is_said
from latencytrace.service.store import DamagedPart
from latencytrace.service.stores.chdb import damage as chdb_repair
from latencytrace.service.stores.chdb.damage import Damage

_log = logging.getLogger(__name__)

_SHORT_INSERTS: Final = 3  # that are tried again as they are
_MENDS: Final = 8  # of parts that one question may find damaged

# By itself the engine looks 20 times a second how much memory the process has.
_AT_REST: Final = "memory_worker_period_ms=1000"
# By itself the engine compiles what is asked for the third time, for half a second and more that
# a page then waits; the answers come no sooner afterwards.
_AS_ASKED: Final = {
    "max_threads": 1,
    "compile_expressions": 0,
    "compile_aggregate_expressions": 0,
    "compile_sort_description": 0,
}
_START_FAILED = "Error initializing"  # the engine prints the reason itself
_CODE = re.compile(r"Code: (\d+)\. DB::Exception: ")


class Engine:
    """The engine on its folder, which no other process may touch meanwhile.

    Args:
        folder: The data folder; locked by the caller.
    """

    writer = ""  # one process alone can write

    def __init__(self, folder: Path, lock: IO[str]) -> None:
        self._path = folder / "clickhouse"
        self._lock = lock
        self._connections: list[Connection] = []
        self._damage: Damage | None = None

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Lock a folder and bring its tables to today's form.

        Raises:
            StoreInUseError: Another process, or another store of this one, owns it.
            StoreError: The folder cannot be used, or another process has it.
        """
        folder = folder.absolute()
        engine = cls(folder, owned(folder))
        try:
            with unusable_is_said(folder):
                private_folder(engine._path)
            engine._prepare()
        except BaseException:
            engine.close()
            raise
        engine._name_what_was_set_aside()
        return engine

    def connect(self, **settings: int) -> "Connection":
        try:
            opened = _chdb.connect(f"{self._path}?{_AT_REST}")  # type: ignore[attr-defined] # no types
            connection = Connection(opened, self._damage)
        except RuntimeError as error:
            raise _connection_error(self._path, error) from error
        self._connections.append(connection)
        for name, value in (_AS_ASKED | settings).items():
            connection.query(f"SET {name} = {value}", "Null")
        return connection

    def damaged_parts(self) -> Sequence[DamagedPart]:
        """The parts of tables that were set aside."""
        return () if self._damage is None else self._damage.parts()

    def lost_parts(self) -> int:
        """Return how many parts were set aside of requests and of what is derived from them."""
        return 0 if self._damage is None else self._damage.lost

    def hurry(self) -> None:
        """Do nothing: the embedded engine waits for no server."""

    def close(self) -> None:
        """End all connections, then release the folder."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._lock.close()

    def _prepare(self) -> None:
        try:
            connection = self.connect()
        except StoreError as error:
            torn = _START_FAILED in str(error)
            aside = chdb_repair.set_definitions_aside(self._path) if torn else None
            if aside is None:
                raise
            connection = self._connect_repaired(aside)
            _log.warning("%s; its definitions were torn: made anew, the old in %s", error, aside)
        connection.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE} ENGINE = Atomic", "Null")
        self._damage = Damage(connection)
        lost = {part.table for part in self._damage.parts()}
        # Rollups say more than what is left of a damaged table.
        if any(table.partition(".")[2] in lost for table in (*DERIVED, REQUESTS)):
            for table in DERIVED:  # what was set aside of them is dropped as well
                connection.query(f"DROP TABLE IF EXISTS {table} SYNC", "Null")
        connection = self.connect()  # one that sets aside what is damaged
        for table, definition in table_definitions():
            self._take_over(connection, table, definition)
            # A table that lost its definition still has its data under its UUID.
            missing = connection.query(f"EXISTS TABLE {table}", "TSV").strip() == b"0"
            found = missing and chdb_repair.has_data(self._path, UUIDS[table])
            verb = "ATTACH TABLE" if found else "CREATE TABLE IF NOT EXISTS"
            connection.query(f"{verb} {table} UUID '{UUIDS[table]}' {definition}", "Null")
        _bring_up_to_date(connection)

    def _connect_repaired(self, aside: Path) -> "Connection":
        try:
            return self.connect()
        except StoreError:
            chdb_repair.put_back(self._path, aside)
            raise

    def _take_over(self, connection: "Connection", table: str, definition: str) -> None:
        """Bring the rows of a table of an older layout into one of today's."""
        lines = connection.query(TABLE_UUIDS, "TSV").decode().splitlines()
        uuids = dict(line.split("\t") for line in lines)
        if table not in uuids and copy_of(table) in uuids:  # it was ended between two steps
            connection.query(f"RENAME TABLE {copy_of(table)} TO {table}", "Null")
        elif uuids.get(table, UUIDS[table]) != UUIDS[table]:
            _log.warning("the table %s has an older layout and is written anew", table)
            lines = connection.query(f"DESCRIBE TABLE {table}", "TSV").decode().splitlines()
            columns = {line.split("\t")[0] for line in lines}
            rows = connection.query(COUNT.format(table=table), "TSV")
            for statement in written_anew(table, definition, columns):
                connection.query(statement, "Null")
            if connection.query(COUNT.format(table=copy_of(table)), "TSV") != rows:
                raise StoreError(
                    f"the table {table} could not be written anew: look after the disk's space, "
                    "and start again; nothing is lost"
                )
            for statement in taken_over(table):
                connection.query(statement, "Null")

    def _name_what_was_set_aside(self) -> None:
        for part in self.damaged_parts():
            _log.warning(
                "part %s of the table %s could not be read (%s) and was set aside in its folder "
                "`detached`; nothing else is missing. Delete it, or keep it for a repair by hand",
                part.name,
                part.table,
                part.reason,
            )


class Connection:
    """One connection; it does one thing at a time.

    Args:
        damage: Sets aside what an answer says is damaged; None: nothing does.
    """

    def __init__(self, connection: "_ChdbConnection", damage: Damage | None = None) -> None:
        self._connection = connection
        self._damage = damage
        self._short_inserts = 0  # one after the other
        self._free = threading.Lock()

    def query(
        self, sql: str, answer_format: str, parameters: Mapping[str, object] | None = None
    ) -> bytes:
        """The answer to a question, in one of the engine's formats.

        Raises:
            StoreError: The engine cannot answer it.
        """
        return cast(bytes, self._answer(sql, answer_format, parameters).bytes())

    def insert(
        self,
        target: Target,
        block: bytes,
        rows: int,
        arrived_ms: int | None = None,
        token: str = "",
    ) -> None:
        """Insert a block; it is kept when this returns, every row of it.

        The engine reads it from a file in memory: of what it is sent in pieces, it keeps what
        it can, and reports success on a full disk.

        Args:
            block: In the target's format.
            arrived_ms: When its spans arrived; None: now, or as the block has it.

        Raises:
            PoisonedBlockError: The block is not of its format.
            StoreError: The engine cannot keep it, or not all of it.
        """
        if not block:
            return
        try:
            with in_memory(block) as path, self._free:
                statement = target.insert_statement(path, arrived_ms)
                written = self._connection.query(statement, "Null", params={}).rows_written()
        except RuntimeError as error:
            raise _insert_error(error) from error
        except OSError as error:
            raise StoreError(f"a block could not be handed to the store: {error}") from error
        self._verify(written, rows)

    def _verify(self, written: int, rows: int) -> None:
        """Compare the number of rows written with the number sent."""
        if written == rows:
            self._short_inserts = 0
            return
        self._short_inserts += 1
        message = f"the store kept {written} of {rows} rows"
        if self._short_inserts > _SHORT_INSERTS:  # or it would be asked for ever
            raise PoisonedBlockError(message)
        raise StoreError(f"{message}: they are inserted again")

    def _answer(
        self, sql: str, answer_format: str, parameters: Mapping[str, object] | None
    ) -> "_ChdbResult":
        bound = {name: bound_text(value) for name, value in (parameters or {}).items()}
        with self._free:
            for mends_left in range(_MENDS, -1, -1):
                try:
                    return self._connection.query(sql, answer_format, params=bound)
                except RuntimeError as error:
                    mended = (
                        mends_left
                        and self._damage is not None
                        and self._damage.mend(_code_of(error), str(error))
                    )
                    if not mended:
                        raise _store_error(error) from error
        raise AssertionError("the last round returns or raises")

    def close(self) -> None:
        """End the connection once it is free."""
        with self._free:
            self._connection.close()


def _bring_up_to_date(connection: Connection) -> None:
    """Give the tables of an older version what those of today have."""
    present = connection.query(COLUMNS, "TSV")
    for statement in (*missing_columns(present), *NO_LONGER_USED):
        connection.query(statement, "Null")
    # Older versions let the engine drop arrivals.
    if connection.query(HAS_TTL, "TSV").strip() == b"1":
        connection.query(NO_TTL, "Null")
    for table in connection.query(OLD_SETTINGS, "TSV").decode().split():
        connection.query(NEW_SETTINGS.format(table=table), "Null")


@contextmanager
def in_memory(block: bytes) -> Iterator[str]:
    """The path of a file that holds a block, while the code inside runs.

    Raises:
        OSError: There is no memory for it, or no file can be opened any more.
    """
    file = os.memfd_create("latencytrace", os.MFD_CLOEXEC)
    try:
        view = memoryview(block)
        while view:
            view = view[os.write(file, view) :]
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)


class _ChdbResult(Protocol):
    def bytes(self) -> object: ...
    def rows_written(self) -> int: ...


class _ChdbConnection(Protocol):
    """The methods of chdb's connection that we use; it has no types."""

    def query(self, sql: str, fmt: str, params: Mapping[str, str]) -> _ChdbResult: ...
    def close(self) -> None: ...


def _code_of(error: RuntimeError) -> int | None:
    code = _CODE.search(str(error))
    return int(code[1]) if code else None


def _store_error(error: RuntimeError) -> StoreError:
    return StoreError(f"the store failed: {shortened(error)}")


def _insert_error(error: RuntimeError) -> StoreError:
    if _code_of(error) in UNREADABLE:
        return PoisonedBlockError(f"the store cannot read the block: {shortened(error)}")
    return _store_error(error)


def _connection_error(path: Path, error: RuntimeError) -> StoreError:
    if "already initialized with path" in str(error):
        return StoreError(
            f"the data folder {path.parent} cannot be opened: this process has another one open, "
            "and the embedded engine takes one at a time; close that store first"
        )
    return StoreError(f"the data folder {path.parent} cannot be opened: {shortened(error)}")
