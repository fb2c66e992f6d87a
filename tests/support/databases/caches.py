"""Servers of Redis and memcached, as they are installed or as `make test` unpacks them."""

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import redis

from tests.support.servers.ports import free_port
from tests.support.servers.prometheus_programs import program
from tests.support.waiting import until


def redis_server(folder: Path, port: int = 0) -> AbstractContextManager[str]:
    """Run Redis; yields the socket that it listens at, besides a port where one is given."""
    path = folder / "socket"
    told = ("--port", str(port), "--unixsocket", str(path), "--save", "", "--dir", str(folder))
    return _serving([program("redis-server"), *told], path)


@contextmanager
def redis_cluster(folder: Path) -> Iterator[int]:
    """Run a cluster of one node; yields its port."""
    port, path = free_port(), folder / "socket"
    told = ("--port", str(port), "--unixsocket", str(path), "--save", "", "--dir", str(folder))
    with _serving([program("redis-server"), *told, "--cluster-enabled", "yes"], path):
        with redis.Redis(port=port) as node:
            node.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            until(lambda: node.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        yield port


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
