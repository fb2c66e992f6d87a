"""A store made of a backup: all of it, or none."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from latencytrace.cli.copying.archive import Counts, Entry, checked, counts_of, rows_in_archive
from latencytrace.cli.copying.progress import rows_bar
from latencytrace.errors import LatencytraceError
from latencytrace.service.store import Store, Table, open_store

ENGINE: Final = "chdb"
_HALF: Final = ".restoring"  # the ending of the folder until all of it is there


def restore_into(path: Path, folder: Path) -> Counts:
    """Make a data folder of a backup; how many rows it holds.

    It is made under another name, which it has until every row is there and counted.

    Raises:
        LatencytraceError: The backup is damaged, or the folder is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LatencytraceError(f"{folder} is not empty: name a folder that is new or empty")
    entries = checked(path)
    half = folder.with_name(f"{folder.name}{_HALF}")
    try:
        if half.exists():  # of an attempt that was cut short
            shutil.rmtree(half)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with closing(open_store(ENGINE, half)) as store:
            counts = _filled(store, path, entries)
        if folder.is_dir():
            folder.rmdir()
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
            store.take(piece, rows)
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
    return counts_of(found)
