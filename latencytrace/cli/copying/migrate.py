"""The move of an embedded store to a server, which can be cut short and begun again."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from latencytrace.cli.copying.archive import Counts, counts_of
from latencytrace.cli.copying.progress import rows_bar
from latencytrace.cli.copying.restore import ENGINE
from latencytrace.errors import LatencytraceError, StoreError
from latencytrace.model.texts.secrets import shown
from latencytrace.service.storage.private_files import read_private, write_private
from latencytrace.service.store import Piece, Store, Table, open_beside, open_store

_DONE: Final = "migrated.json"  # where to, once all of it is there


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """The outcome of a move."""

    counts: Counts
    copied: int  # rows, this time
    before: bool = False  # it was done: nothing was looked at


def migrate_to(address: str, folder: Path) -> Migrated:
    """Copy an embedded store to the server at an address, and count it there.

    Pieces that are there already are left alone. The folder keeps what it has.

    Raises:
        StoreInUseError: A service owns the folder.
        LatencytraceError: There is no store, or the server has other rows than it.
    """
    if not (folder / "clickhouse").is_dir():
        raise LatencytraceError(f"there is no embedded store in {folder}: name its folder, --data")
    with closing(open_store(ENGINE, folder)) as source:
        done = folder / _DONE
        where = shown(address).partition("?")[0].rpartition("@")[2]
        known = _known(done)
        if known.get("to") == where:
            return Migrated(counts={}, copied=0, before=True)
        source.keep_noted()
        pieces = source.pieces()
        with closing(open_beside(address, folder)) as server:
            copied = _copied(source, server, pieces)
            counts = _compared(source, server, pieces)
        write_private(done, json.dumps({"to": where}).encode())
        return Migrated(counts=counts, copied=copied)


def _known(done: Path) -> dict[str, str]:
    try:
        known: dict[str, str] = json.loads(read_private(done))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StoreError(f"{done} cannot be read: {error}") from None
    return known


def _copied(source: Store, server: Store, pieces: Sequence[Piece]) -> int:
    """Copy the pieces that the server has not got; how many rows that was."""
    copied = 0
    with rows_bar("moving", sum(piece.rows for piece in pieces)) as advance:
        for piece in pieces:
            there = server.count_of(piece)
            # Of requests, rows of a piece may be superseded there; to write them again is nothing.
            if there == 0 or (piece.table is Table.REQUESTS and there < source.count_of(piece)):
                rows = source.rows_of(piece)
                if rows:
                    copied += server.take(piece, rows)
            advance(piece.rows)
    return copied


def _compared(source: Store, server: Store, pieces: Sequence[Piece]) -> Counts:
    """Count every piece on either side.

    Raises:
        LatencytraceError: They differ.
    """
    here = counts_of(replace(piece, rows=source.count_of(piece)) for piece in pieces)
    there = counts_of(replace(piece, rows=server.count_of(piece)) for piece in pieces)
    wrong = [
        f"{there[table, day]} of {rows} rows of {table} of {day}"
        for (table, day), rows in sorted(here.items())
        if there[table, day] != rows
    ]
    if wrong:
        raise LatencytraceError(
            f"the server has {'; '.join(wrong)}: begin again with an empty database"
        )
    return there
