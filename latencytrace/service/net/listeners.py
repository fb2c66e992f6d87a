"""Sockets, and the HTTP servers on them, in one event loop."""

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

import uvicorn

from latencytrace.errors import SettingsError
from latencytrace.service.net import connections
from latencytrace.service.net.connections import Closed, Connections
from latencytrace.service.net.edge import Application

_HANGUP: Final = getattr(signal, "SIGHUP", None)  # Windows has none


@contextmanager
def on_hangup(call: Callable[[], None]) -> Iterator[None]:
    """Call something at each SIGHUP while the block runs.

    At a terminal the signal ends the service, as it does when the terminal is closed; where it
    is ignored, as under `nohup`, it still is.
    """
    is_main = threading.current_thread() is threading.main_thread()
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if _HANGUP is None or not is_main or at_terminal:
        yield
        return
    before = signal.getsignal(_HANGUP)
    if before == signal.SIG_IGN:
        yield
        return
    signal.signal(_HANGUP, lambda *_: call())
    try:
        yield
    finally:
        signal.signal(_HANGUP, before)


ANSWERS_S: Final = 4  # after the signal to stop, for answers under way
KEEP_ALIVE_S = 75  # senders post every 5 s: a connection that ends just then costs them a post
_BACKLOG = 2048
_LOOK_EVERY_S = 1.0
_log = logging.getLogger(__name__)


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
        """Return whether it answers."""
        ...

    async def start(self) -> None: ...

    async def stop(self, grace_s: float) -> None:
        """Answer what is under way within this time; may be called again with less."""
        ...

    async def stopped(self) -> None: ...


class _Server(uvicorn.Server):
    """A server that wakes up once a second, for the date that it answers with.

    By itself it looks ten times a second whether it is to end.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self, *, at_once: bool) -> None:
        """Let what is under way be answered, or not, and end."""
        self.force_exit = at_once
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Return when it is to end."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _LOOK_EVERY_S)


class Servers:
    """Servers that start together, and end together at a signal.

    Args:
        stopping: Called at the first signal.
        closed: Called with each connection that is closed before its time, by reason.
    """

    def __init__(
        self, *companions: Companion, stopping: Callable[[], None], closed: Closed
    ) -> None:
        self._stopping_begins = stopping
        self._closed = closed
        self._servers: tuple[_Server, ...] = ()
        self._companions = companions
        self._stopping: list[asyncio.Future[None]] = []  # a task without a reference may vanish

    @property
    def are_started(self) -> bool:
        """Return whether each of them answers."""
        return (
            bool(self._servers)
            and all(server.started for server in self._servers)
            and all(companion.is_started for companion in self._companions)
        )

    def run(self, *listeners: Listener) -> None:
        """Serve until SIGINT or SIGTERM, then answer what is under way, and return.

        A second signal cuts short what is under way.
        """
        most = connections.most_connections(connections.limit())
        configurations = [
            uvicorn.Config(
                listener.application,
                # A class is asked for; it is only called.
                http=Connections(most, self._closed).protocol,  # type: ignore[arg-type] # a protocol of ours
                access_log=False,
                log_config=None,
                log_level="warning",
                lifespan="off",
                ws="none",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=ANSWERS_S,
                timeout_keep_alive=KEEP_ALIVE_S,
            )
            for listener in listeners
        ]
        self._servers = tuple(map(_Server, configurations))
        with asyncio.Runner(loop_factory=configurations[0].get_loop_factory()) as runner:
            runner.run(self._serve([listener.socket for listener in listeners]))

    async def _serve(self, sockets: list[socket.socket]) -> None:
        for companion in self._companions:
            await companion.start()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        watching = asyncio.create_task(_watch_descriptors())
        # `serve` would install signal handlers of its own, one server's over the other's.
        await asyncio.gather(
            *(
                server._serve([listened])  # noqa: SLF001 - it has no public name
                for server, listened in zip(self._servers, sockets, strict=True)
            ),
            *(companion.stopped() for companion in self._companions),
        )
        watching.cancel()

    def _stop(self) -> None:
        again = any(server.should_exit for server in self._servers)
        if not again:
            self._stopping_begins()
        for server in self._servers:
            server.end(at_once=again)
        for companion in self._companions:
            self._stopping.append(asyncio.ensure_future(companion.stop(0 if again else ANSWERS_S)))


async def _watch_descriptors() -> None:
    """Log when no client can connect for want of descriptors: accepting fails in silence."""
    known = None
    while True:
        short = connections.shortage()
        if short is not None and known is None:
            _log.error("%s", short)
        elif short is None and known is not None:
            _log.warning("files and connections can be opened again")
        known = short
        await asyncio.sleep(_LOOK_EVERY_S)
