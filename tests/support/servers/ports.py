"""Ports for programs that have to be told one, and cannot say which they took."""

import itertools
import os
import socket
from collections.abc import Iterator

# Below the kernel's own choice (32768), so that no connection of anybody's takes one meanwhile.
# Each worker has some of its own, and begins where no other run is likely to be.
FIRST, EACH = 20_000, 2_000
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_own = range(FIRST + _worker * EACH, FIRST + (_worker + 1) * EACH)
_begin = os.getpid() * 97 % EACH
_ports: Iterator[int] = itertools.cycle([*_own[_begin:], *_own[:_begin]])


def free_port() -> int:
    """Return a port of loopback that nobody listens on, another each time."""
    for port in _ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("every port is taken")
