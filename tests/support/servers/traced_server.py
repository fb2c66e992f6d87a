"""A server under `latencytrace run`, in a process of its own, and the spans that it sends."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.support.agent.receiving import ReceivedSpan, Receiver
from tests.support.servers.command_line import COMMAND, environment
from tests.support.servers.ports import free_port

PATIENCE_S = 150  # a server that loads torch, on a machine that does something else too


class TracedServer:
    """Where it listens, and what it sent."""

    def __init__(self, url: str, receiver: Receiver, log: Path) -> None:
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False)
        self._receiver = receiver
        self._log = log

    def spans(self, named: str, count: int) -> list[ReceivedSpan]:
        """So many spans of one name, in order of their start, once they are there."""
        self.wait_until(lambda: len(self.named(named)) >= count)
        found = self.named(named)
        assert len(found) == count, [span.name for span in self._receiver.spans]
        return sorted(found, key=lambda span: span.start_ns)

    def trace(self, of: ReceivedSpan) -> list[ReceivedSpan]:
        """Everything that belongs to one request, in order of the start."""
        spans = [span for span in self._receiver.spans if span.trace_id == of.trace_id]
        return sorted(spans, key=lambda span: span.start_ns)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait for the server."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.02)

    def answers(self, path: str | None) -> bool:
        """Return whether it serves already; None: whether it listens."""
        try:
            if path is None:
                address = urlsplit(self.url)
                socket.create_connection((str(address.hostname), int(address.port or 0))).close()
                return True
            return self.client.get(path).is_success
        except (httpx.TransportError, ConnectionError):
            return False

    def named(self, name: str) -> list[ReceivedSpan]:
        """Those of one name that are there."""
        return [span for span in self._receiver.spans if span.name == name]


@contextmanager
def traced_server(
    receiver: Receiver, folder: Path, *command: str, ready: str | None, **variables: str
) -> Iterator[TracedServer]:
    """Run a server as long as the block.

    Args:
        receiver: Takes its spans.
        folder: Where it runs, and logs.
        command: Its command line, with `PORT` where its port belongs.
        ready: The path that it answers with success once it serves; None: it speaks no HTTP.
        variables: More of its environment.
    """
    port = str(free_port())
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*COMMAND, "run", "--", *(part.replace("PORT", port) for part in command)],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment(
                OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
                OTEL_BSP_SCHEDULE_DELAY="50",
                PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                **variables,
            ),
        )
        server = TracedServer(f"http://127.0.0.1:{port}", receiver, log)
        try:
            server.wait_until(lambda: process.poll() is not None or server.answers(ready))
            assert process.poll() is None, log.read_text()
            yield server
        finally:
            server.client.close()
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End the leader of a session as a terminal does, and by force what is left of all.

    LitServe's workers outlive a server that is told to end, traced or not.
    """
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(30)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
