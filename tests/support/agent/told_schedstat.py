"""A file such as Linux has for each thread, in which a test says how long that has waited."""

from pathlib import Path


class ToldSchedstat:
    """The file of all threads.

    Args:
        folder: Where it is made.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "schedstat"
        self._waited_ns = 0
        self.wait(0)

    @property
    def path(self) -> str:
        """Where it is."""
        return str(self._file)

    def wait(self, for_ns: int) -> None:
        """Say that the threads have waited so much longer for a processor."""
        self._waited_ns += for_ns
        self._file.write_bytes(b"1 %d 1\n" % self._waited_ns)
