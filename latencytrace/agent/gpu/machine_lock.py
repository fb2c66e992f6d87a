"""A lock that one process of a user on a machine holds: GPUs need be read once only."""

import fcntl
import os
import tempfile
from pathlib import Path


class MachineLock:
    """Held from `take` until `release`, or the end of the process however it ends.

    Args:
        name: What it is for; None of its holders may need another's.
        folder: Where its file lies.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        folder = folder or Path(tempfile.gettempdir())
        self._path = folder / f"latencytrace-{name}-{os.getuid()}.lock"
        self._file: int | None = None

    def take(self) -> bool:
        """Take it if it is free; where no such file can be, every process takes it."""
        if self._file is not None:
            return True
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(self._path, flags, 0o600)
        except OSError:
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._file = file
        return True

    def release(self) -> None:
        """Let others have it."""
        self.forget()

    def forget(self) -> None:
        """In a forked child: leave it with the parent; closing is no unlocking there."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
