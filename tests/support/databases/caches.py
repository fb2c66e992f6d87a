"""Servers of Redis and memcached, as they are installed or as `make test` unpacks them."""

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.support.servers.prometheus_programs import program
from tests.support.waiting import until


def redis_server(folder: Path) -> AbstractContextManager[str]:
    """Run Redis; yields the socket that it listens at."""
    path = folder / "socket"
    told = ("--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder))
    return _serving([program("redis-server"), *told], path)


def memcached(folder: Path) -> AbstractContextManager[str]:
    """Run memcached; yields the socket that it listens at."""
    path = folder / "socket"
    return _serving([program("memcached"), "-s", str(path), "-u", "root"], path)


@contextmanager
def _serving(command: Sequence[str], path: Path) -> Iterator[str]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        until(lambda: _listens(path))
        yield str(path)
    finally:
        process.terminate()
        process.wait(40)


def _listens(path: Path) -> bool:
    """Whether it takes connections, which is later than that its socket is there."""
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(str(path)) == 0
