"""A service on this machine: whether one answers, and whether one can be started."""

import importlib.util
import os
import shutil
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from latencytrace.errors import LatencytraceError, ServiceUnreachableError, SettingsError
from latencytrace.model.texts.secrets import parted, why_no_address

LONGEST_STATUS = 100  # of an answer's first line
EXTRA_HINT = "pip install 'latencytrace[service]'"
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def answers(url: str, timeout_s: float = 5.0) -> bool:
    """Tell whether an HTTP server answers GET with success.

    By hand: `run` asks it, has no httpx, and would take longer to import http.client than to ask.
    """
    try:
        bare, headers = parted(url)
        parts = urlsplit(bare)
        lines = [f"GET {parts.path or '/'} HTTP/1.0", f"host: {parts.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        with ExitStack() as stack:
            connection = stack.enter_context(
                socket.create_connection(host_and_port(bare), timeout_s)
            )
            if parts.scheme == "https":
                connection = stack.enter_context(_secured(connection, parts.hostname))
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            version, status, *_ = connection.makefile("rb").readline(LONGEST_STATUS).split()
    except (OSError, ValueError, SettingsError):
        return False
    return version.startswith(b"HTTP/") and status == b"200"


def _secured(connection: socket.socket, host: str | None) -> socket.socket:
    import ssl  # slow to import, and a service on this machine has no TLS

    return ssl.create_default_context().wrap_socket(connection, server_hostname=host)


def listens(endpoint: str, timeout_s: float = 1.0) -> bool:
    """Tell whether anything accepts connections at a base address."""
    host, port = host_and_port(endpoint)
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def is_loopback(endpoint: str) -> bool:
    """Tell whether an address can only be on this machine."""
    return host_and_port(endpoint)[0] in LOOPBACK


def host_and_port(endpoint: str) -> tuple[str, int]:
    """The host and port of a base address, the scheme's own port by default.

    Raises:
        SettingsError: The endpoint is not an address.
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
    needed = ("typer", "fastapi", "uvicorn", "grpc", "chdb")
    return all(importlib.util.find_spec(name) for name in needed)


def require_service(purpose: str) -> None:
    """Raise an error that names the purpose unless the service is installed."""
    if not service_is_installed():
        raise LatencytraceError(f"{purpose} needs the service's parts: {EXTRA_HINT}")


def own_command() -> str:
    """`latencytrace` where the shell finds this one by its name, else a path that it does find.

    A virtual environment that is not activated, as that of `make demo`, is not on PATH.
    """
    script = Path(sys.executable).parent / "latencytrace"
    found = shutil.which("latencytrace")
    if found is not None and Path(found).absolute() == script:
        return "latencytrace"
    if not script.is_file():
        return f"{sys.executable} -m latencytrace"
    here = Path.cwd()
    return os.fspath(script.relative_to(here) if script.is_relative_to(here) else script)
