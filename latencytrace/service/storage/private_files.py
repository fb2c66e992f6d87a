"""Files and folders that only the service's own user can read, and that lead nowhere else.

The rights are set, whatever the umask and the rights of the folder. A symbolic link inside the
data folder is refused: writing through it would change a file that is not ours.
"""

import errno
import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from latencytrace.errors import StoreError, StoreInUseError

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
UMASK: Final = 0o077  # for files that others write for us: the engine, SQLite
_OF_OTHERS: Final = 0o077  # rights of the group and of others
_WRITABLE_BY_GROUP: Final = 0o020
_WRITABLE_BY_ALL: Final = 0o002
_ROOT: Final = 0
_PART: Final = ".part"
_log = logging.getLogger(__name__)


def private_folder(path: Path, *, may_be_link: bool = False) -> None:
    """Make a folder that only its owner can enter, or tighten the one that is there.

    Args:
        may_be_link: A symbolic link to a folder will do, as for the data folder itself.

    Raises:
        StoreError: It is a link, or others could put files into it.
        FileExistsError: There is a file of that name.
        OSError: The folder cannot be created.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=FOLDER_MODE, parents=True)
        path.chmod(FOLDER_MODE)  # the umask may have taken rights of our own away
    link_flag = 0 if may_be_link else os.O_NOFOLLOW
    if not may_be_link and path.is_symlink():
        raise StoreError(_is_link(path))
    try:
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | link_flag)
    except NotADirectoryError:
        raise FileExistsError(errno.EEXIST, "it is no folder", str(path)) from None
    try:
        _tighten_folder(path, opened)
    finally:
        os.close(opened)


def open_private(path: Path, flags: int) -> int:
    """Open a file that only its owner can read or write.

    Args:
        path: The file; made with mode 0600 where `flags` ask for it, tightened where it is ours.
        flags: Flags of `os.open`; `O_NOFOLLOW` and `O_CLOEXEC` are added.

    Returns:
        The descriptor, which the caller closes.

    Raises:
        StoreError: It is a symbolic link, or no regular file.
        OSError: As of `os.open`.
    """
    # O_NONBLOCK: a named pipe in the file's place would block us until a process reads it.
    safe = flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        opened = os.open(path, safe, FILE_MODE)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EEXIST} and path.is_symlink():
            raise StoreError(_is_link(path)) from None
        if error.errno in {errno.ENXIO, errno.EISDIR}:
            raise StoreError(f"{path} is no regular file: remove it") from None
        raise
    try:
        _tighten_file(path, opened)
    except BaseException:
        os.close(opened)
        raise
    return opened


def read_private(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        StoreError: It is a symbolic link, or no regular file.
        OSError: It is not there, or cannot be read.
    """
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
        return file.read()


def write_private(path: Path, content: bytes) -> None:
    """Write all of a file or none of it.

    Raises:
        StoreError: Its part file is a symbolic link, or no regular file.
        OSError: The file cannot be written.
    """
    part = path.with_name(path.name + _PART)
    with os.fdopen(open_private(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(content)
    part.replace(path)


def refuse_link(path: Path) -> None:
    """Refuse a path that a library opens for us and would follow.

    Raises:
        StoreError: The path is a symbolic link.
    """
    if path.is_symlink():
        raise StoreError(_is_link(path))


@contextmanager
def private_umask() -> Iterator[None]:
    """Keep what this process makes from others while the block runs."""
    before = os.umask(UMASK)
    try:
        yield
    finally:
        os.umask(before)


def _tighten_folder(path: Path, opened: int) -> None:
    found = os.fstat(opened)
    if found.st_uid == os.geteuid():
        if found.st_mode & _OF_OTHERS:
            os.fchmod(opened, stat.S_IMODE(found.st_mode) & ~_OF_OTHERS)
            _log.warning(_TIGHTENED, path, stat.S_IMODE(found.st_mode) & 0o777, "0700")
    elif _others_may_write(found):
        raise StoreError(
            f"{path} belongs to another user (id {found.st_uid}) and others may write into it: "
            "make it yours with `chown`, or name another folder"
        )


def _others_may_write(found: os.stat_result) -> bool:
    """Tell whether users other than us and root can put files into a folder that is not ours.

    A volume of Kubernetes belongs to root and to a group of the pod's own (`fsGroup`).
    """
    if found.st_mode & _WRITABLE_BY_ALL:
        return True
    own_group = found.st_gid in {os.getegid(), *os.getgroups()}
    is_volume = found.st_uid == _ROOT and own_group
    return bool(found.st_mode & _WRITABLE_BY_GROUP) and not is_volume


def _tighten_file(path: Path, opened: int) -> None:
    found = os.fstat(opened)
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path} is no regular file: remove it")
    if found.st_uid == os.geteuid() and found.st_mode & _OF_OTHERS:
        os.fchmod(opened, stat.S_IMODE(found.st_mode) & ~_OF_OTHERS)
        _log.warning(_TIGHTENED, path, stat.S_IMODE(found.st_mode) & 0o777, "0600")


_TIGHTENED = "%s could be read or written by others (mode %04o): it is %s now"


def _is_link(path: Path) -> str:
    return f"{path} is a symbolic link, and nothing is read or written through one: remove it"


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
