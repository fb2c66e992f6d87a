"""A service on this machine: whether one answers, and starting one that ends with us."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from latencytrace.cli.processes.parent_death import ending_with_parent
from latencytrace.errors import ServiceUnreachableError, SettingsError
from latencytrace.model.secrets import parted, why_no_address
from latencytrace.settings import OFF

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
LAST_LINES = 5  # of a failed program's log, shown in the message
EXTRA_HINT = "pip install 'latencytrace[service]'"
LOOPBACK = {"127.0.0.1", "localhost", "::1"}

# A proxy of the environment has no business between two programs of one machine.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def open_url(request: urllib.request.Request | str, timeout_s: float) -> HTTPResponse:
    """Open an HTTP address directly, past any proxy.

    Raises:
        OSError: It cannot be reached, or (`HTTPError`) does not answer with success.
    """
    if isinstance(request, str):
        request = urllib.request.Request(request)  # noqa: S310 - the user's own address
    try:
        bare, of_user = parted(request.full_url)
    except ValueError as error:
        raise OSError(why_no_address(request.full_url, error)) from None
    request.full_url = bare  # http.client would take the password for a port, and say it
    for name, value in of_user.items():
        if not request.has_header(name.capitalize()):
            request.add_header(name, value)
    try:
        response: HTTPResponse = _opener.open(request, timeout=timeout_s)
    except HTTPException as error:  # what answers does not speak HTTP
        raise OSError(f"no HTTP answer: {type(error).__name__}") from None
    return response


def answers(url: str, timeout_s: float = 1.0) -> bool:
    """Whether an HTTP server answers GET with success."""
    try:
        with open_url(url, timeout_s) as response:
            return bool(response.status == 200)  # noqa: PLR2004 - HTTP's OK
    except (OSError, ValueError):
        return False


def listens(endpoint: str, timeout_s: float = 1.0) -> bool:
    """Whether anything accepts connections at a base address."""
    host, port = host_and_port(endpoint)
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def is_loopback(endpoint: str) -> bool:
    """Whether an address can only be on this machine."""
    return host_and_port(endpoint)[0] in LOOPBACK


def host_and_port(endpoint: str) -> tuple[str, int]:
    """The host and port of a base address, the scheme's own port by default.

    Raises:
        SettingsError: It is no address.
    """
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError as error:
        raise SettingsError(why_no_address(endpoint, error)) from None
    default = 443 if parts.scheme == "https" else 80
    return parts.hostname or "127.0.0.1", port or default


def free_port(preferred: int | None = None) -> int:
    """A port of loopback that nothing listens on, the preferred one if it is free."""
    for port in (preferred, 0):
        if port is None:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ServiceUnreachableError("no free port is left on 127.0.0.1")


def service_is_installed() -> bool:
    """Whether the `service` extra is there."""
    return all(importlib.util.find_spec(name) for name in ("fastapi", "uvicorn", "grpc", "chdb"))


class BackgroundProgram:
    """A program of ours that runs beside us, writes to a log, and never outlives us.

    Args:
        title: What messages call it.
        command: The program and its arguments.
        log: Where its output goes.
        environment: Added to ours.
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
        """What it said last."""
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

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
    *, folder: Path | None, url: str, endpoint: str, log: Path, grpc: bool = False
) -> BackgroundProgram:
    """A `latencytrace serve` that listens at these base addresses.

    Args:
        folder: Its data; None: the usual ones.
        url: Where it answers.
        endpoint: Where it takes spans.
        log: Where its output goes.
        grpc: It takes them over gRPC there, else over HTTP.
    """
    otlp = ["--otlp-grpc", _address(endpoint), "--otlp-http", "127.0.0.1:0"]
    if not grpc:
        otlp = ["--otlp-http", _address(endpoint), "--otlp-grpc", OFF]
    command = [sys.executable, "-m", "latencytrace", "serve"]
    command += ["--listen", _address(url), *otlp]
    if folder is not None:
        command += ["--data", os.fspath(folder)]
    return BackgroundProgram("latencytrace serve", command, log)


def _address(url: str) -> str:
    host, port = host_and_port(url)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
