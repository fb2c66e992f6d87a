"""Servers of Redis and memcached, as they are installed or as `make test` unpacks them."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.support.servers.prometheus_programs import program
from tests.support.waiting import until


def redis_server(folder: Path) -> AbstractContextManager[str]:
    """Run Redis; yields the socket that it listens at."""
    socket = folder / "socket"
    told = ("--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder))
    return _serving([program("redis-server"), *told], socket)


def memcached(folder: Path) -> AbstractContextManager[str]:
    """Run memcached; yields the socket that it listens at."""
    socket = folder / "socket"
    return _serving([program("memcached"), "-s", str(socket), "-u", "root"], socket)


@contextmanager
def _serving(command: Sequence[str], socket: Path) -> Iterator[str]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        until(socket.exists)
        yield str(socket)
    finally:
        process.terminate()
        process.wait(40)
