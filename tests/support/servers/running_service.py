"""A `latencytrace serve` in a process of its own, on free ports of loopback."""

import gzip
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import httpx

from tests.support.servers.command_line import COMMAND, environment
from tests.support.waiting import PATIENCE_S, until

PROTOBUF = {"content-type": "application/x-protobuf"}
USUAL = {
    "LATENCYTRACE_SETTLE": "0",  # most tests look at metrics at once
    "LATENCYTRACE_STOP_WITHIN": "3600",  # nothing is cut short on a busy machine
}
_ADDRESSES = re.compile(r"takes spans at (\S+) and answers at (\S+)")
_GRPC = re.compile(r"over gRPC too, at (\S+)\n")


class RunningService:
    """The service, its addresses and ways to end it."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        env: Mapping[str, str] | None = None,
        ready: bool = True,
        command: Sequence[str] = COMMAND,
        first: str = "",
    ) -> None:
        self.folder = folder
        grpc = () if "--otlp-grpc" in flags else ("--otlp-grpc", "127.0.0.1:0")
        listen = () if "--listen" in flags else ("--listen", "127.0.0.1:0")
        with ExitStack() as opened:
            log = (folder.parent / f"{folder.name}.log").open("w+b")
            self._log = opened.enter_context(log)
            self.client = opened.enter_context(httpx.Client(timeout=PATIENCE_S, trust_env=False))
            self.process = opened.enter_context(
                subprocess.Popen(
                    [
                        *(("sh", "-c", f'{first}; exec "$@"', "sh") if first else ()),  # `ulimit`
                        *(*command, "serve", "--data", str(folder)),
                        *("--otlp-http", "127.0.0.1:0", *grpc, *listen, *flags),
                    ],
                    stdout=self._log,
                    stderr=subprocess.STDOUT,
                    env=environment(**{**USUAL, **(env or {})}),
                )
            )
            opened.callback(self.process.kill)  # which is nothing to one that has ended
            if ready:
                self.wait_until_ready()
            self._opened = opened.pop_all()

    def wait_until_ready(self) -> None:
        """Read its addresses off what it prints, and ask it."""

        def said_its_addresses() -> re.Match[str] | None:
            assert self.process.poll() is None, f"it ended at once and said:\n{self.said()}"
            return _ADDRESSES.search(self.said())

        addresses = until(said_its_addresses, self.said)
        self.otlp, self.url = addresses.groups()
        self.otlp = self.otlp.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - asked on loopback
        self.url = self.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - likewise
        until(lambda: self.client.get(f"{self.url}/readyz").is_success, self.said)

    @property
    def otlp_grpc(self) -> str:
        """Where it takes spans over gRPC."""
        return until(lambda: _GRPC.search(self.said()), self.said).group(1)

    def said(self) -> str:
        """What it printed so far."""
        return os.pread(self._log.fileno(), 1 << 20, 0).decode()

    def post(
        self, body: bytes, headers: Mapping[str, str] = PROTOBUF, path: str = "/v1/traces"
    ) -> httpx.Response:
        """Send to the receiver of spans."""
        return self.client.post(f"{self.otlp}{path}", content=body, headers=dict(headers))

    def post_gzip(self, body: bytes) -> httpx.Response:
        """Likewise, compressed."""
        return self.post(gzip.compress(body), {**PROTOBUF, "content-encoding": "gzip"})

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Ask the API's listener."""
        return self.client.get(f"{self.url}{path}", headers=dict(headers or {}))

    def ask(self, path: str) -> dict[str, object]:
        """A document of the API."""
        answer = self.get(f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        document: dict[str, object] = answer.json()
        return document

    def request(self, trace_id: str, *, revision: int = 1) -> dict[str, object]:
        """A request, once it is divided for this time."""

        def found() -> dict[str, object] | None:
            answer = self.get(f"/api/v1/requests/{trace_id}")
            if answer.status_code == 404:
                return None
            document: dict[str, object] = answer.json()
            return document if document["revision"] == revision else None

        return until(found, self.said)

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.get("/metrics").text.splitlines()
        return sum(
            float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}[ {{]", line)
        )

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal, and return its exit code."""
        self.process.send_signal(how)
        return self.exit_code()

    def exit_code(self) -> int:
        """How it ended."""
        return self.process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
