"""The tables as a whole: their partitions, copies of them, and what others write to them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from latencytrace.errors import StoreError, TooLargeError
from latencytrace.service.sql import copying, questions
from latencytrace.service.sql.tables import DROP_PARTITION, PARTITIONS, ROLLUPS
from latencytrace.service.sql_store.engine import EngineConnection, StoreEngine
from latencytrace.service.sql_store.reading import LISTS, SqlQuestions, firsts, rows
from latencytrace.service.store import DamagedPart, Partition, Piece, Table

_SECOND_NS: Final = 10**9
_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S


def partitions_from(rows: Iterable[Sequence[Any]]) -> list[Partition]:
    """Partitions from the rows of the answer to `tables.PARTITIONS`."""
    return [
        Partition(
            table=Table(table),
            since_ns=_since_s(name) * _SECOND_NS,
            until_ns=(_since_s(name) + (_HOUR_S if table == Table.ARRIVALS else _DAY_S))
            * _SECOND_NS,
            rows=count,
            bytes=size_bytes,
        )
        for table, name, count, size_bytes in rows
    ]


def drop_statements(partition: Partition) -> Iterator[str]:
    """The statements that drop a partition, with the rollups that are part of it."""
    since_s = partition.since_ns // _SECOND_NS
    day = f"{datetime.fromtimestamp(since_s, UTC):%Y%m%d}"
    name = since_s if partition.table is Table.ARRIVALS else day
    yield DROP_PARTITION.format(table=partition.table, name=name)
    # Afterwards: what a process that dies half-way leaves of it is listed, and dropped again.
    if partition.table is Table.REQUESTS:
        yield DROP_PARTITION.format(table=ROLLUPS.partition(".")[2], name=day)


def _since_s(name: str) -> int:
    """When a partition begins: its name is a day, as 20261122, or an hour's Unix time."""
    if len(name) == len("20261122"):
        return round(datetime.strptime(name, "%Y%m%d").replace(tzinfo=UTC).timestamp())
    return int(name)


class SqlTables(SqlQuestions):
    """The part of the store that knows its tables; `SqlStore` says which."""

    _engine: StoreEngine
    _assembler: EngineConnection
    _mine: str  # what is true of rows that this service wrote

    @property
    def is_shared(self) -> bool:
        return bool(self._engine.writer)

    def rootless_lately(self) -> Collection[str]:
        if not self.is_shared:
            return ()
        return firsts(self._assembler.query(questions.rootless_lately(self._mine), LISTS))

    def elsewhere(self, trace_ids: Collection[str]) -> Collection[str]:
        if not (self.is_shared and trace_ids):
            return ()
        question = questions.elsewhere(self._mine)
        return firsts(self._assembler.query(question, LISTS, {"trace_ids": trace_ids}))

    def damaged_parts(self) -> Sequence[DamagedPart]:
        return self._engine.damaged_parts()

    def partitions(self) -> Sequence[Partition]:
        return partitions_from(rows(self._assembler.query(PARTITIONS, LISTS)))

    def pieces(self) -> Sequence[Piece]:
        return list(copying.pieces(self._readers.query))

    def rows_of(self, piece: Piece) -> bytes:
        try:
            found = self._readers.query(copying.rows_question(piece), "Native")
        except StoreError as error:
            if not copying.TOO_LARGE.search(str(error)):
                raise
            raise TooLargeError(
                f"the rows of this piece take more than {copying.MOST_MEMORY >> 20} MiB of "
                "memory: ask for less, with more shares"
            ) from None
        return found if copying.rows_in(found) else b""

    def count_of(self, piece: Piece) -> int:
        return int(self._readers.query(copying.count_question(piece, self._mine), "TSV"))

    def take(self, piece: Piece, rows: bytes) -> int:
        count = copying.rows_in(rows)
        token = copying.token_of(piece, self._engine.writer)
        self._assembler.insert(copying.TARGETS[piece.table], rows, count, token=token)
        return count

    def all_taken(self) -> None:
        self._assembler.query(copying.TWICE, "Null")
        self._assembler.query(copying.LEFT, "Null")

    def drop(self, partition: Partition) -> None:
        for statement in drop_statements(partition):
            self._assembler.query(statement, "Null")
