"""The move of an embedded store to a server, which can be cut short and begun again."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from latencytrace.cli.copying.archive import Counts, counts_of, piece_of, rows_bar
from latencytrace.cli.copying.backup import ENGINE
from latencytrace.errors import LatencytraceError, StoreError, TooLargeError
from latencytrace.model.texts.secrets import shown
from latencytrace.service.storage.private_files import read_private, write_private
from latencytrace.service.store import Piece, Store, Table, open_beside, open_store

_DONE: Final = "migrated.json"  # where to and how much, once all of it is there
# The same from the beginning on, and its pieces: merges change how they would be cut.
_UNDER_WAY: Final = "migrating.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """The outcome of a move."""

    counts: Counts
    copied: int  # rows, this time
    before: bool = False  # it was done, and nothing came since


def migrate_to(address: str, folder: Path) -> Migrated:
    """Copy an embedded store to the server at an address, and count it there.

    Pieces that are there already are left alone. The folder keeps what it has.

    Raises:
        StoreInUseError: A service owns the folder.
        LatencytraceError: There is no store, or the server has other rows than it, or there
            is more than when a move to this address began.
    """
    if not (folder / "clickhouse").is_dir():
        raise LatencytraceError(f"there is no embedded store in {folder}: name its folder, --data")
    with closing(open_store(ENGINE, folder)) as source:
        source.keep_noted()
        pieces = list(source.pieces())
        where = shown(address).partition("?")[0].rpartition("@")[2]
        move = {"to": where, "written_ns": source.last_written_ns(), "rows": _rows(pieces)}
        done, under_way = folder / _DONE, folder / _UNDER_WAY
        if _known(done, move):
            return Migrated(counts={}, copied=0, before=True)

        begun = _known(under_way, move)

        def note(pieces: Sequence[Piece]) -> None:
            listed = {**(begun or move), "pieces": [asdict(piece) for piece in pieces]}
            write_private(under_way, json.dumps(listed).encode())

        if begun:
            pieces = [piece_of(one) for one in begun["pieces"]]
        else:
            note(pieces)
        with closing(open_beside(address, folder)) as server:
            copied = _copied(source, server, pieces, note)
            counts = _compared(source, server, pieces)
        write_private(done, json.dumps(move).encode())
        under_way.unlink()
        return Migrated(counts=counts, copied=copied)


def _rows(pieces: Sequence[Piece]) -> dict[str, int]:
    """How many rows each table has."""
    found: Counter[str] = Counter()
    for piece in pieces:
        found[piece.table] += piece.rows
    return dict(found)


def _known(path: Path, move: Mapping[str, Any]) -> Mapping[str, Any]:
    """The notes of a file on this move; empty: none, or on one to another place.

    Raises:
        LatencytraceError: Rows came since it was written.
    """
    try:
        known: dict[str, Any] = json.loads(read_private(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from None
    if known.get("to") != move["to"]:
        return {}
    rows = known.get("rows", {})
    # There may be fewer: old rows expire, and merges drop duplicates.
    more = any(count > rows.get(table, 0) for table, count in move["rows"].items())
    if more or move["written_ns"] > known.get("written_ns", 0):
        raise LatencytraceError(
            f"{path.parent} has more by now than was to be moved to {known['to']}: stop the "
            f"service that uses it, remove {path}, and move all of it to an empty database"
        )
    return known


def _copied(
    source: Store, server: Store, pieces: list[Piece], note: Callable[[Sequence[Piece]], None]
) -> int:
    """Copy the pieces that the server has not got; how many rows that was.

    A piece that is too large is replaced by its halves, which is noted before one is copied.
    """
    copied = place = 0
    with rows_bar("moving", sum(piece.rows for piece in pieces)) as advance:
        while place < len(pieces):
            piece = pieces[place]
            try:
                copied += _moved(source, server, piece)
            except TooLargeError:
                pieces[place : place + 1] = piece.halves()
                note(pieces)
                continue
            advance(piece.rows)
            place += 1
    return copied


def _moved(source: Store, server: Store, piece: Piece) -> int:
    """Copy a piece, unless the server has it; how many rows that was."""
    there = server.count_of(piece)
    # Of requests, rows of a piece may be superseded there; to write them again is nothing.
    if there and (piece.table is not Table.REQUESTS or there >= source.count_of(piece)):
        return 0
    rows = source.rows_of(piece)
    return server.take(piece, rows) if rows else 0


def _compared(source: Store, server: Store, pieces: Sequence[Piece]) -> Counts:
    """Count every piece on either side.

    Raises:
        LatencytraceError: The counts differ.
    """
    counted = [replace(piece, rows=source.count_of(piece)) for piece in pieces]
    pieces = [piece for piece in counted if piece.rows]  # others grew old since it began
    here = counts_of(pieces)
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
