"""A real service that is slowed, killed and started again on one folder and one address."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from tests.stress.sender import Address
from tests.support.servers.command_line import COMMAND
from tests.support.servers.running_service import RunningService

SLOW_SERVICE: Final = Path(__file__).parent / "slow_service.py"


class StressedService:
    """One folder, and the process that serves it now.

    Args:
        folder: Where its data go.
        slow_ms: The delay of each insert and write.
    """

    def __init__(self, folder: Path, slow_ms: float = 0.0) -> None:
        self.folder = folder
        self.said = ""  # by the processes that have ended
        self._command = (COMMAND[0], str(SLOW_SERVICE), "--slow-ms", str(slow_ms))
        self.running = RunningService(folder, command=self._command)
        self._flags = (
            *("--otlp-http", urlsplit(self.running.otlp).netloc),
            *("--listen", urlsplit(self.running.url).netloc),
        )

    @property
    def otlp(self) -> Address:
        """Where it takes spans; the same after every restart."""
        host, _, port = self._flags[1].rpartition(":")
        return host, int(port)

    def kill(self) -> None:
        """End it as the kernel does that has no memory left."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator does.

        Raises:
            AssertionError: It did not end well.
        """
        code = self._end(signal.SIGTERM)
        assert code == 0, f"it ended with {code} and said:\n{self.said}"

    def start(self) -> None:
        """Start it again."""
        self.running = RunningService(self.folder, *self._flags, command=self._command)

    def metrics(self) -> Mapping[str, float]:
        """Every metric by the name of its samples, summed over its labels; buckets left out."""
        sums: dict[str, float] = {}
        text = self.running.get("/metrics").text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not sample.name.endswith("_bucket"):
                    sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
        return sums

    def _end(self, how: signal.Signals) -> int:
        with self.running as ended:
            code = ended.end(how)
            self.said += ended.said()
        return code


@contextmanager
def stressed_service(folder: Path, slow_ms: float = 0.0) -> Iterator[StressedService]:
    """Run one while the block runs, however often it is started again."""
    service = StressedService(folder, slow_ms)
    try:
        yield service
    finally:
        with service.running:
            pass
