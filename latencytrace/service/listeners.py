"""Sockets, and the HTTP servers on them, in one event loop."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import uvicorn

from latencytrace.errors import SettingsError
from latencytrace.service.edge import Application

GRACE_S = 5  # how long answers under way may take at the end
_BACKLOG = 2048


@contextmanager
def listening(host: str, port: int, flag: str) -> Iterator[socket.socket]:
    """A socket that listens at an address.

    Raises:
        SettingsError: It cannot; the message says what to do, by the flag's name.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, port))
            opened.listen(_BACKLOG)
        except OSError as error:
            raise SettingsError(
                f"cannot listen on {host}:{port}: {error.strerror}. If a latencytrace runs "
                f"there, use it; else choose another address with {flag} HOST:PORT"
            ) from None
        yield opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An application and the socket it is served on."""

    application: Application
    socket: socket.socket


class Companion(Protocol):
    """A server that is none of HTTP, in the same event loop."""

    @property
    def is_started(self) -> bool:
        """Whether it answers."""
        ...

    async def start(self) -> None:
        """Begin to listen."""
        ...

    async def stop(self, grace_s: float) -> None:
        """Answer what is under way within this time; may be called again with less."""
        ...

    async def stopped(self) -> None:
        """Return once it has ended."""
        ...


class Servers:
    """Servers that start together, and end together at a signal.

    Args:
        companions: Those that are none of HTTP.
    """

    def __init__(self, *companions: Companion) -> None:
        self._servers: tuple[uvicorn.Server, ...] = ()
        self._companions = companions
        self._stopping: list[asyncio.Future[None]] = []  # a task that nobody holds may vanish

    @property
    def are_started(self) -> bool:
        """Whether each of them answers."""
        return (
            bool(self._servers)
            and all(server.started for server in self._servers)
            and all(companion.is_started for companion in self._companions)
        )

    def run(self, *listeners: Listener) -> None:
        """Serve until SIGINT or SIGTERM, then answer what is under way, and return.

        A second signal cuts short what is under way.
        """
        configurations = [
            uvicorn.Config(
                listener.application,
                access_log=False,
                log_config=None,
                log_level="warning",
                lifespan="off",
                ws="none",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=GRACE_S,
            )
            for listener in listeners
        ]
        self._servers = tuple(map(uvicorn.Server, configurations))
        with asyncio.Runner(loop_factory=configurations[0].get_loop_factory()) as runner:
            runner.run(self._serve([listener.socket for listener in listeners]))

    async def _serve(self, sockets: list[socket.socket]) -> None:
        for companion in self._companions:
            await companion.start()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        # `serve` would install signal handlers of its own, one server's over the other's.
        await asyncio.gather(
            *(
                server._serve([listened])  # noqa: SLF001 - see above
                for server, listened in zip(self._servers, sockets, strict=True)
            ),
            *(companion.stopped() for companion in self._companions),
        )

    def _stop(self) -> None:
        again = any(server.should_exit for server in self._servers)
        for server in self._servers:
            server.force_exit = again
            server.should_exit = True
        for companion in self._companions:
            self._stopping.append(asyncio.ensure_future(companion.stop(0 if again else GRACE_S)))
