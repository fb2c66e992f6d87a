"""A data folder and its owner: one process at a time, and nothing of anybody else's."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from latencytrace.errors import StoreError, StoreInUseError
from latencytrace.service.storage.private_files import open_private, private_folder


def owned(folder: Path) -> IO[str]:
    """Make a data folder where there is none, and lock it.

    Returns:
        The lock file; closing it releases the folder.

    Raises:
        StoreInUseError: Another process, or another store of this one, owns it.
        StoreError: The folder cannot be used, or another process has it.
    """
    with unusable_is_said(folder):
        if folder.is_dir():
            refuse_others(folder)  # before the rights of a wrong folder are changed
        private_folder(folder, may_be_link=True)
        return locked(folder / "lock")


@contextmanager
def unusable_is_said(folder: Path) -> Iterator[None]:
    """Say which folder the system does not let us use.

    Raises:
        StoreError: The system refused access.
    """
    try:
        yield
    except FileExistsError as error:
        raise StoreError(f"{folder} is no folder: name one that is new or empty") from error
    except OSError as error:
        raise StoreError(f"the data folder {folder} cannot be used: {error.strerror}") from error


def refuse_others(folder: Path) -> None:
    """Leave a folder alone that has things in it, and none of them ours."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    others = sorted(names - {"lost+found"})
    if others and not names & {"clickhouse", "lock"}:
        raise StoreError(
            f"{folder} is no data folder, it holds {others[0]!r} and the like: name one that is "
            "new or empty"
        )


def locked(path: Path) -> IO[str]:
    """The lock file of a folder, locked until it is closed or this process dies."""
    lock = os.fdopen(open_private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read().strip() or "unknown"
        lock.close()
        raise StoreInUseError(
            f"the data folder {path.parent} belongs to process {owner}: ask that service "
            "(--url), stop it, or name another folder (--data)"
        ) from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock
