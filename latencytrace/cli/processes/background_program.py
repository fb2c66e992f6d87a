"""A program of ours that runs in the background and ends with us, such as a service."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from latencytrace.cli.processes.foreground import ending_with_parent
from latencytrace.cli.processes.local_service import answers, host_and_port
from latencytrace.errors import ServiceUnreachableError
from latencytrace.variables import OFF

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0  # it needs 10 s at most, where the machine is not busy
LAST_LINES = 5  # of a failed program's log, shown in the message


class BackgroundProgram:
    """A program of ours in the background that writes to a log and never outlives us.

    Args:
        command: The program and its arguments.
    """

    def __init__(
        self,
        title: str,
        command: list[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.title = title
        self.command = command
        self.log = log
        self._environment = {**os.environ, **(environment or {})}  # noqa: TID251 - handed on, not read
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it in a session of its own, so that Ctrl-C is ours to pass on."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - a program of ours
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=ending_with_parent(),  # noqa: PLW1509 - it calls into C and returns
                env=self._environment,
            )

    def wait_until_answers(
        self,
        url: str,
        timeout_s: float = READY_TIMEOUT_S,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Return once it answers at `url`; `meanwhile` is called again and again.

        Raises:
            ServiceUnreachableError: It ended or took too long; the message has its log.
        """
        deadline_s = time.monotonic() + timeout_s
        while not answers(url):
            if self._process is None or self._process.poll() is not None:
                raise ServiceUnreachableError(self._failure("ended before it was ready"))
            if time.monotonic() > deadline_s:
                raise ServiceUnreachableError(self._failure(f"not ready after {timeout_s:g} s"))
            meanwhile()
            time.sleep(0.05)

    def last_line(self) -> str:
        lines = self._log_lines()
        return lines[-1] if lines else ""

    def stop(self) -> None:
        """End it: asked first, then made to."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _failure(self, what: str) -> str:
        said = "\n".join(f"  {line}" for line in self._log_lines()[-LAST_LINES:])
        return f"{self.title}: {what}; its output is in {self.log}" + (f"\n{said}" if said else "")

    def _log_lines(self) -> list[str]:
        try:
            text = self.log.read_text("utf-8", errors="replace")
        except OSError:
            return []
        return [line.rstrip() for line in text.replace("\r", "\n").splitlines() if line.strip()]


def service_program(
    *, folder: Path | None, listen: str, endpoint: str, log: Path, grpc: bool = False
) -> BackgroundProgram:
    """A `latencytrace serve` that listens at these addresses.

    Args:
        folder: Data folder; None: the usual one.
        listen: Where it answers, a host and a port.
        endpoint: Where it takes spans, a base address.
        grpc: Whether it takes spans over gRPC there, else over HTTP.
    """
    otlp = ["--otlp-grpc", address_of(endpoint), "--otlp-http", "127.0.0.1:0"]
    if not grpc:
        otlp = ["--otlp-http", address_of(endpoint), "--otlp-grpc", OFF]
    command = [sys.executable, "-m", "latencytrace", "serve"]
    command += ["--listen", listen, *otlp]
    if folder is not None:
        command += ["--data", os.fspath(folder)]
    return BackgroundProgram("latencytrace serve", command, log)


def address_of(url: str) -> str:
    """The host and the port of a base address, as `serve` takes them."""
    host, port = host_and_port(url)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
