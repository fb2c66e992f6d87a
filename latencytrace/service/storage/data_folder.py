"""A data folder and its owner: one process at a time, and nothing of anybody else's."""

import fcntl
import os
from pathlib import Path
from typing import IO

from latencytrace.errors import StoreError, StoreInUseError
from latencytrace.service.storage.private_files import open_private


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
