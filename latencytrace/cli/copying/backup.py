"""A backup of a store, of a service while it runs or of a data folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from latencytrace.cli.copying.archive import Counts, counts_of, new_archive
from latencytrace.cli.copying.progress import rows_bar
from latencytrace.cli.source.reading import Source
from latencytrace.service.store import Piece, Table

_NUMBERS: Final = ("since_s", "until_s", "first_s", "last_s", "share", "shares", "rows")


def back_up(source: Source, path: Path) -> Counts:
    """Write a backup of all that a source has; how many rows it holds.

    Raises:
        LatencytraceError: It cannot be written, or the source fails.
    """
    with new_archive(path) as archive:
        listed = cast("dict[str, list[dict[str, Any]]]", source.document("/backup", {}))
        pieces = [_piece(one) for one in listed["pieces"]]
        with rows_bar(path.name, sum(piece.rows for piece in pieces)) as advance:
            for piece in pieces:
                asked = {name: str(getattr(piece, name)) for name in ("table", *_NUMBERS)}
                body = source.body("/backup/rows", asked)
                rows, size = (int.from_bytes(body[at : at + 8], "little") for at in (0, 8))
                if rows:
                    archive.add(replace(piece, rows=rows), body[16:], size)
                advance(piece.rows)
    return counts_of(entry.piece for entry in archive.entries)


def _piece(document: dict[str, Any]) -> Piece:
    numbers = {name: int(document[name]) for name in _NUMBERS}
    return Piece(table=Table(document["table"]), **numbers)
