"""Backups of a store in one file, and data folders made of them."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, cast

from latencytrace.cli.copying.archive import (
    ArchiveWriter,
    Counts,
    Entry,
    checked,
    counts_of,
    new_archive,
    piece_of,
    rows_bar,
    rows_in_archive,
)
from latencytrace.cli.source.reading import Source
from latencytrace.errors import LatencytraceError, TooLargeError
from latencytrace.service.store import Piece, Store, Table, open_store


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


ENGINE: Final = "chdb"
# Until all of it is there: the ending of a new folder, or a folder in an empty one.
_HALF: Final = ".restoring"
_OF_A_VOLUME: Final = frozenset({"lost+found"})  # in the root of a new file system


def restore_into(path: Path, folder: Path) -> Counts:
    """Make a data folder of a backup; how many rows it holds.

    It is made under another name, which it has until every row is there and counted. In a
    folder that is there, which may be a volume, it is made inside.

    Raises:
        LatencytraceError: The backup is damaged, or the folder is not empty.
    """
    folder = folder.resolve()  # of a link, the folder that it leads to
    is_there = folder.is_dir()
    half = folder / _HALF if is_there else folder.with_name(f"{folder.name}{_HALF}")
    names = {one.name for one in folder.iterdir()} if is_there else set()
    if names - {half.name, *_OF_A_VOLUME} or (folder.exists() and not is_there):
        raise LatencytraceError(f"{folder} is not empty: name a folder that is new or empty")
    entries = checked(path)
    try:
        if half.exists():  # of an attempt that was cut short
            shutil.rmtree(half)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with closing(open_store(ENGINE, half)) as store:
            counts = _filled(store, path, entries)
        if is_there:
            for one in half.iterdir():
                one.rename(folder / one.name)
            half.rmdir()
        else:
            half.rename(folder)
    except OSError as error:
        raise LatencytraceError(f"{folder} cannot be made: {error.strerror or error}") from None
    return counts


def _filled(store: Store, path: Path, entries: Sequence[Entry]) -> Counts:
    """Take everything, and count it.

    Raises:
        LatencytraceError: The store has other rows than the backup.
    """
    with rows_bar(path.name, sum(entry.piece.rows for entry in entries)) as advance:
        for piece, rows in rows_in_archive(path, entries):
            if (taken := store.take(piece, rows)) != piece.rows:
                raise LatencytraceError(
                    f"{path} is damaged: it has {taken} of {piece.rows} rows of {piece.table}"
                )
            advance(piece.rows)
    found = [replace(one.piece, rows=store.count_of(one.piece)) for one in entries]
    wrong = [
        f"{entry.file}: {one.rows} of {entry.piece.rows} rows"
        for entry, one in zip(entries, found, strict=True)
        # A request that was revised meanwhile may be in two pieces: the later one counts.
        if one.rows > entry.piece.rows
        or (one.rows < entry.piece.rows and one.table is not Table.REQUESTS)
    ]
    if wrong:
        raise LatencytraceError(f"the store does not hold what {path} does: {'; '.join(wrong)}")
    store.all_taken()
    return counts_of(
        replace(one, rows=store.count_of(one)) if one.table is Table.REQUESTS else one
        for one in found
    )
