"""The tables as a whole: their partitions, copies of them, and what others write to them."""

from collections.abc import Collection, Sequence

from latencytrace.errors import StoreError, TooLargeError
from latencytrace.service.sql import copying, questions
from latencytrace.service.sql.tables import PARTITIONS
from latencytrace.service.sql_store.engine import EngineConnection, StoreEngine
from latencytrace.service.sql_store.partitions import drop_statements, partitions_from
from latencytrace.service.sql_store.reading import LISTS, SqlQuestions, firsts, rows
from latencytrace.service.store import DamagedPart, Partition, Piece


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
