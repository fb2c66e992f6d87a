"""Traces noted in a file, so that the next process still knows them."""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from latencytrace.errors import StoreError
from latencytrace.service.storage.private_files import open_private, read_private

TO_KEEP = "to_keep"  # the file with the traces that are noted
_ID_DIGITS = 32


class NotedTraces:
    """A set of trace ids that outlives the process, not the machine.

    It has no lock: a caller that uses it from several threads must hold one.

    Args:
        path: The file; a line each. One that is torn was never noted.

    Raises:
        StoreError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            content = read_private(path)
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error}") from error
        lines = content.decode(errors="replace").splitlines()
        self.ids = {line for line in lines if len(line) == _ID_DIGITS}

    def add(self, trace_ids: Collection[str]) -> None:
        """Note traces.

        Raises:
            StoreError: The file cannot be written.
        """
        try:
            opened = open_private(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            with os.fdopen(opened, "a") as file:
                # The line before may be torn.
                file.write("\n".join(("", *trace_ids, "")))
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error}") from error
        self.ids.update(trace_ids)

    def clear(self) -> None:
        """Forget all of them."""
        self.ids.clear()
        with suppress(OSError):  # it is read again at the next start, which does no harm
            self._path.unlink()
