"""A backup of a store, of a service while it runs or of a data folder."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from latencytrace.cli.copying.archive import (
    ArchiveWriter,
    Counts,
    counts_of,
    new_archive,
    piece_of,
)
from latencytrace.cli.copying.progress import rows_bar
from latencytrace.cli.source.reading import Source
from latencytrace.errors import TooLargeError
from latencytrace.service.store import Piece, Table


def back_up(source: Source, path: Path) -> Counts:
    """Write a backup of all that a source has; how many rows it holds.

    Raises:
        LatencytraceError: It cannot be written, or the source fails.
    """
    with new_archive(path) as archive:
        ledgers = [piece for piece in _listed(source) if piece.table is Table.REQUESTS]
        _copy(source, ledgers, archive, path.name)
        # Of a service that goes on, ledgers came meanwhile: their spans are in pieces of now.
        spans = [piece for piece in _listed(source) if piece.table is not Table.REQUESTS]
        _copy(source, spans, archive, path.name)
    return counts_of(entry.piece for entry in archive.entries)


def _listed(source: Source) -> list[Piece]:
    listed = cast("dict[str, list[dict[str, Any]]]", source.document("/backup", {}))
    return [piece_of(one) for one in listed["pieces"]]


def _copy(source: Source, pieces: list[Piece], archive: ArchiveWriter, title: str) -> None:
    with rows_bar(title, sum(piece.rows for piece in pieces)) as advance:
        for piece in pieces:
            _copy_piece(source, piece, archive)
            advance(piece.rows)


def _copy_piece(source: Source, piece: Piece, archive: ArchiveWriter) -> None:
    """Copy a piece, in halves where it is too large at once."""
    asked = {name: str(value) for name, value in asdict(piece).items()}
    try:
        body = source.body("/backup/rows", asked)
    except TooLargeError:
        for half in piece.halves():
            _copy_piece(source, half, archive)
        return
    rows, size = (int.from_bytes(body[at : at + 8], "little") for at in (0, 8))
    if rows:
        archive.add(replace(piece, rows=rows), body[16:], size)
