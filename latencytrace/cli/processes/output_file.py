"""Files that a command writes where its user says: whole or not at all."""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

STDOUT: Final = Path("-")
OF_ANYBODY: Final = 0o666  # less what the umask takes, as of any new file


def is_stdout(path: Path) -> bool:
    """Tell whether a path means standard output: `-`, or `/dev/stdout`."""
    if path == STDOUT:
        return True
    try:
        return os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # it is no file yet, or our output is none
        return False


def write_whole(path: Path, body: bytes) -> None:
    """Write all of a file or nothing, and follow a symbolic link.

    What is no regular file, as a pipe or a device, is written through.

    Raises:
        OSError: It cannot be written; it is as it was.
    """
    target, found = _target(path)
    if target is None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_NOCTTY), "wb") as file:
            file.write(body)
        return
    with part_of(target) as part:
        part.write_bytes(body)
        if found is not None:
            with suppress(PermissionError):
                os.chown(part, found.st_uid, found.st_gid)
            part.chmod(stat.S_IMODE(found.st_mode))
        part.replace(target)


def check_writable(path: Path) -> None:
    """Find out early whether a file can be written; it is left as it is.

    Raises:
        OSError: The file cannot be written.
    """
    target, _ = _target(path)
    if target is not None:
        with part_of(target):
            pass


@contextmanager
def part_of(path: Path, mode: int = OF_ANYBODY) -> Iterator[Path]:
    """A new, empty file next to another, to be moved there; what is left of it is removed.

    Args:
        path: The file that it will be.
        mode: Rights of the file, less what the umask takes.

    Raises:
        OSError: The file cannot be created.
    """
    part = path.with_name(f".latencytrace-{token_hex(8)}.part")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


def _target(path: Path) -> tuple[Path | None, os.stat_result | None]:
    """The regular file that a path leads to, and what is there; None: it is no such file.

    Raises:
        OSError: It leads to a folder, or nowhere.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return path.resolve(), None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return (path.resolve(), found) if stat.S_ISREG(found.st_mode) else (None, found)
