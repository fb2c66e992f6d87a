"""Ends, flushes and stops traced programs whose receiver is away, and says how long that took.

    python -m tests.stress.away [--providers ours own] [--json]

A line for each receiver, provider (latencytrace's, or one of the SDK's that the program sets) and
call: what the call gave, the seconds that it took, the spans made, sent, dropped and waiting after
it, and what was logged. The first receiver takes all at once: what a call takes with it, and half
a second, is added to what is documented. It ends with 1 where any took longer.
"""

import argparse
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from itertools import product
from typing import Final, NamedTuple

from latencytrace.agent.spans.provider import SHUTDOWN_S
from tests.stress.ends import begun

PROVIDERS: Final = ("ours", "own")
BOUNDS_S: Final = {
    "flush:0.2": 0.2,
    "flush:1": 1.0,
    "flush:6": 6.0,
    "uninstrument": SHUTDOWN_S,
    "exit": SHUTDOWN_S,
}
_SPARE_S: Final = 0.5
_PATIENCE_S: Final = 60.0
_TAKEN: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"

Answer = Callable[[socket.socket, threading.Event], None]


class Seen(NamedTuple):
    """What one call did."""

    receiver: str
    provider: str
    call: str
    gave: bool | None
    took_s: float
    counts: tuple[int, ...]  # made, sent, dropped, waiting
    logged: tuple[str, ...]


def _silent(_: socket.socket, over: threading.Event) -> None:
    over.wait()


def _takes(connection: socket.socket, over: threading.Event, after_s: float = 0.0) -> None:
    while not over.wait(after_s):
        connection.sendall(_TAKEN)
        if not connection.recv(1 << 16):
            break


def _half_way(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(_TAKEN.replace(b"length: 0", b"length: 9") + b"half")
    over.wait()


def _drips(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
    while not over.wait(0.1):
        connection.sendall(b"a")


def _breaks(connection: socket.socket, _: threading.Event) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _busy(connection: socket.socket, _: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 503 Busy\r\nretry-after: 60\r\ncontent-length: 0\r\n\r\n")


ANSWERS: Final[dict[str, Answer]] = {
    "takes all": _takes,
    "silent": _silent,
    "slow": partial(_takes, after_s=1.0),
    "half-way": _half_way,
    "drips": _drips,
    "breaks": _breaks,
    "busy": _busy,
}


@contextmanager
def refused() -> Iterator[int]:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    yield port


@contextmanager
def unheard() -> Iterator[int]:
    """A port at which connections wait to be taken, as many as may."""
    with ExitStack() as held:
        listening = held.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(2):
            waits = held.enter_context(socket.socket())
            waits.settimeout(0.0)
            waits.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


@contextmanager
def answering(answer: Answer) -> Iterator[int]:
    """The port of a receiver that reads, and does as it likes."""
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            answer(connection, over)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


RECEIVERS: Final[dict[str, Callable[[], AbstractContextManager[int]]]] = {
    **{name: partial(answering, answer) for name, answer in ANSWERS.items()},
    "refused": refused,
    "unheard": unheard,
}


def seen(receiver: str, provider: str, call: str) -> Seen:
    """Run one program to its end."""
    with RECEIVERS[receiver]() as port:
        url = f"http://127.0.0.1:{port}"
        program = begun("away", provider, call, receiver=url, stderr=subprocess.PIPE)
        assert program.stdout is not None
        found = json.loads(program.stdout.readline())
        began = time.monotonic()
        _, log = program.communicate(timeout=_PATIENCE_S)
        took_s = time.monotonic() - began if call == "exit" else found["took_s"]
    logged = tuple(line for line in log.splitlines() if line.startswith("latencytrace"))
    return Seen(receiver, provider, call, found["gave"], took_s, tuple(found["counts"]), logged)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each; 1 where any was late."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress.away")
    parser.add_argument("--providers", nargs="+", choices=PROVIDERS, default=PROVIDERS)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args(arguments)
    late, usual_s = 0, dict[tuple[str, str], float]()
    for receiver, provider, call in product(RECEIVERS, told.providers, BOUNDS_S):
        one = seen(receiver, provider, call)
        usual_s.setdefault((provider, call), one.took_s)
        is_late = one.took_s > BOUNDS_S[call] + usual_s[provider, call] + _SPARE_S
        late += is_late
        shown = json.dumps(one._asdict()) if told.json else _line(one, is_late=is_late)
        sys.stdout.write(f"{shown}{os.linesep}")
        sys.stdout.flush()
    return int(late > 0)


def _line(one: Seen, *, is_late: bool) -> str:
    counts = " ".join(f"{count:>3}" for count in one.counts)
    late = "  LATE" if is_late else ""
    log = f"  {len(one.logged)} in the log" if one.logged else ""
    return (
        f"{one.receiver:<10}{one.provider:<6}{one.call:<14}{one.gave!s:<6}"
        f"{one.took_s:6.2f} s   {counts}{late}{log}"
    )


if __name__ == "__main__":
    sys.exit(main())
