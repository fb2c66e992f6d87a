"""Parts of tables that turn out to be damaged, set aside while everything else goes on."""

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import orjson

from latencytrace.service.sql.tables import (
    ACTIVE_PARTS,
    DERIVED,
    DETACHED_PARTS,
    REQUESTS,
    UUIDS,
)
from latencytrace.service.sql_store.rollups import RollupsLostError
from latencytrace.service.store import DamagedPart

_log = logging.getLogger(__name__)

# The engine's codes for data on disk that is not what was written.
_DAMAGED: Final = frozenset(
    {
        32,  # ATTEMPT_TO_READ_AFTER_EOF
        33,  # CANNOT_READ_ALL_DATA
        40,  # CHECKSUM_DOESNT_MATCH
        107,  # FILE_DOESNT_EXIST
        117,  # INCORRECT_DATA
        128,  # TOO_LARGE_ARRAY_SIZE
        131,  # TOO_LARGE_STRING_SIZE
        226,  # NO_FILE_IN_DATA_PART
        246,  # CORRUPTED_DATA
        271,  # CANNOT_DECOMPRESS
        432,  # UNKNOWN_CODEC
    }
)
_LINES: Final = "JSONCompactEachRow"
_BAD_ROWS: Final = "SETTINGS check_query_single_value_result = 0"
_PART = re.compile(rf"/({'|'.join(UUIDS.values())})/([0-9a-zA-Z_-]+)/")
_TABLES: Final = {uuid: table for table, uuid in UUIDS.items()}
_REASON_CHARS: Final = 200
_COUNTED: Final = frozenset({*DERIVED, REQUESTS})


class Asking(Protocol):
    """A connection, as far as it is used here."""

    def query(self, sql: str, answer_format: str) -> bytes: ...


class Damage:
    """Finds damaged parts, and sets them aside.

    Args:
        connection: One of its own, which mends nothing itself.
    """

    def __init__(self, connection: Asking) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.lost = 0  # parts set aside of what rollups are made of, or of them

    def mend(self, code: int | None, message: str) -> bool:
        """Set aside what an answer of the engine's says is damaged.

        Args:
            message: Message of the error, which may name the part.

        Returns:
            Whether the question should be asked again.

        Raises:
            RollupsLostError: Without the part, the answer would be wrong.
        """
        if code not in _DAMAGED:
            return False
        with self._lock:
            named = {(_TABLES[uuid], name) for uuid, name in _PART.findall(message)}
            bad = [one for table, name in sorted(named) for one in self._bad(table, name)]
            if not bad:  # it names none, or one that is gone by now
                bad = [one for table in UUIDS for one in self._bad(table)]
            for table, name, reason in bad:
                # Before it is gone: no answer without it may be taken for a whole one.
                self.lost += table in _COUNTED
                self._connection.query(f"ALTER TABLE {table} DETACH PART '{name}'", "Null")
                _log.error(
                    "part %s of %s is damaged (%s) and was set aside: the rest goes on",
                    name,
                    table,
                    reason[:_REASON_CHARS],
                )
            if any(table in DERIVED for table, *_ in bad):
                raise RollupsLostError("rollups were damaged and are made anew: ask again")
            # Another thread may have set it aside meanwhile.
            return bool(bad or named)

    def parts(self) -> Sequence[DamagedPart]:
        """The parts set aside, by the engine when it started or by `mend`."""
        lines = self._connection.query(DETACHED_PARTS, _LINES)
        return [
            DamagedPart(table=table, name=name, rows=_rows(Path(path)), reason=reason or "damaged")
            for table, name, reason, path in map(orjson.loads, lines.splitlines())
        ]

    def _bad(self, table: str, name: str | None = None) -> Iterator[tuple[str, str, str]]:
        """The damaged ones of the parts of a table, or of one part: table, name, reason."""
        if name is not None:
            count = self._connection.query(ACTIVE_PARTS.format(table=table, name=name), "TSV")
            if count.strip() == b"0":
                return
        which = "" if name is None else f"PART '{name}' "
        lines = self._connection.query(f"CHECK TABLE {table} {which}{_BAD_ROWS}", _LINES)
        for part, passed, reason in map(orjson.loads, lines.splitlines()):
            if not int(passed):
                yield table, part, reason


def _rows(part: Path) -> int | None:
    """How many rows a part has by its own account."""
    try:
        return int((part / "count.txt").read_text())
    except (OSError, ValueError):
        return None


# A torn data folder made readable again without touching a row.
#
# Parts that are torn the engine sets aside by itself. Torn definitions it cannot start
# with; they are the same in every folder, so they are set aside and made anew.

_DEFINITIONS = "metadata"
_FORMAT = "format_version.txt"
_FORMAT_TEXT = b"1"


def has_data(engine_folder: Path, uuid: str) -> bool:
    """Whether a table has a folder of its own, defined or not."""
    return _data_folder(engine_folder, uuid).is_dir()


def set_definitions_aside(engine_folder: Path) -> Path | None:
    """Rename the definitions, so that the engine starts without a table.

    Returns:
        Where they are now; None: there were none, so that they are not at fault.
    """
    definitions = engine_folder / _DEFINITIONS
    if not definitions.is_dir():
        return None
    for uuid in UUIDS.values():
        version = _data_folder(engine_folder, uuid) / _FORMAT
        # The engine writes it anew; there has only ever been this one.
        if version.exists() and version.read_bytes() != _FORMAT_TEXT:
            version.unlink()
    now = datetime.now(UTC)
    return definitions.rename(engine_folder / f"{_DEFINITIONS}.torn-{now:%Y%m%dT%H%M%S%f}")


def put_back(engine_folder: Path, aside: Path) -> None:
    """Undo `set_definitions_aside` where it did not help."""
    fresh = engine_folder / _DEFINITIONS
    if fresh.is_dir():
        fresh.rename(f"{aside}-unused")
    aside.rename(fresh)


def _data_folder(engine_folder: Path, uuid: str) -> Path:
    return engine_folder / "store" / uuid[:3] / uuid
