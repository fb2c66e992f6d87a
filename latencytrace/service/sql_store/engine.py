"""An engine as the store asks it, embedded or on a server, and what both have in common."""

import queue
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from latencytrace.errors import StoreError
from latencytrace.service.sql.tables import Target
from latencytrace.service.store import DamagedPart

READERS: Final = 2  # at once: more would starve the writer
READ_SECONDS: Final = 30

# The engine's codes for input that is not of its format.
UNREADABLE: Final = frozenset(
    {
        6,  # CANNOT_PARSE_TEXT
        27,  # CANNOT_PARSE_INPUT_ASSERTION_FAILED
        32,  # ATTEMPT_TO_READ_AFTER_EOF
        33,  # CANNOT_READ_ALL_DATA
        36,  # BAD_ARGUMENTS: two values in the place of one
        41,  # CANNOT_PARSE_DATETIME
        117,  # INCORRECT_DATA
        128,  # TOO_LARGE_ARRAY_SIZE
        131,  # TOO_LARGE_STRING_SIZE
    }
)


class EngineConnection(Protocol):
    """A connection to an engine."""

    def query(
        self, sql: str, answer_format: str, parameters: Mapping[str, object] | None = None
    ) -> bytes:
        """The answer to a question, in one of the engine's formats.

        Raises:
            StoreError: The engine cannot answer it.
        """
        ...

    def insert(
        self,
        target: Target,
        block: bytes,
        rows: int,
        arrived_ms: int | None = None,
        token: str = "",
    ) -> None:
        """Insert a block; it is kept when this returns, every row of it.

        Args:
            block: In the target's format.
            arrived_ms: When its spans arrived; None: now, or as the block has it.
            token: Of several blocks with the same one, a server keeps one.

        Raises:
            PoisonedBlockError: The block is not of its format.
            StoreError: The engine cannot keep it, or not all of it.
        """
        ...


class StoreEngine(Protocol):
    """An engine with our tables."""

    @property
    def writer(self) -> str:
        """The id of this service, where others can write to the tables; empty: none can."""
        ...

    def connect(self, **settings: int) -> EngineConnection: ...

    def damaged_parts(self) -> Sequence[DamagedPart]:
        """The parts of tables that were set aside."""
        ...

    def lost_parts(self) -> int:
        """How many parts were set aside of requests and of what is derived from them."""
        ...

    def hurry(self) -> None:
        """Let nothing take long from now on: the service ends."""
        ...

    def close(self) -> None:
        """End all connections, then release the data folder."""
        ...


class Readers:
    """The few connections that questions of people are answered over."""

    def __init__(self, engine: StoreEngine) -> None:
        self._free: queue.SimpleQueue[EngineConnection] = queue.SimpleQueue()
        for _ in range(READERS):
            self._free.put(engine.connect(max_execution_time=READ_SECONDS, readonly=2))

    def query(
        self, sql: str, answer_format: str, parameters: Mapping[str, object] | None = None
    ) -> bytes:
        """Run a query; wait for a free connection."""
        with self._turn() as connection:
            return connection.query(sql, answer_format, parameters)

    @contextmanager
    def _turn(self) -> Iterator[EngineConnection]:
        try:
            connection = self._free.get(timeout=READ_SECONDS)
        except queue.Empty:
            raise StoreError(
                f"{READERS} questions have been under way for {READ_SECONDS} s: ask again later, "
                "or for a shorter time"
            ) from None
        try:
            yield connection
        finally:
            self._free.put(connection)


def bound_text(value: object) -> str:
    """A value as the engine reads it for a parameter of a query.

    Args:
        value: None, a number, a text, or for an array texts, or keys of numbers and texts.
    """
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return _escaped(value)
    if isinstance(value, Collection):
        return f"[{','.join(map(literal, value))}]"
    return str(value)


def literal(value: object) -> str:
    """A value as SQL has it, also within an array or a tuple."""
    if isinstance(value, str):
        quoted = _escaped(value).replace("'", "\\'")
        return f"'{quoted}'"
    if isinstance(value, Collection):
        return f"({','.join(map(literal, value))})"
    return str(value)


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})


def shortened(error: Exception | str) -> str:
    """The text of an engine's error, which may quote a whole query."""
    text = str(error)
    return text if len(text) <= _MESSAGE_CHARS else text[:_MESSAGE_CHARS] + "…"


_MESSAGE_CHARS: Final = 500
