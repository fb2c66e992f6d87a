"""`latencytrace run` and gunicorn: a request begins when it came, though its worker was busy."""

import socket
import sys
import time
from pathlib import Path

import pytest

from tests.support.agent.held import HELD_NS, HOLDS, JIFFY_NS, WAITS, ask, read_all
from tests.support.agent.receiving import ReceivedSpan, Receiver
from tests.support.servers.traced_server import traced_server
from tests.support.waiting import PATIENCE_S, until

HELD = f"""
import os
import socket

def app(environ, start_response):
    if environ["PATH_INFO"] == "{HOLDS}":
        with socket.create_connection(("127.0.0.1", int(os.environ["GATE"]))) as gate:
            gate.recv(1)
    start_response("200 OK", [("content-length", "0")])
    return [b""]
"""
GUNICORN = ("-m", "gunicorn", "--bind", "127.0.0.1:PORT", "--workers", "1")


@pytest.mark.parametrize(
    "kind", [("sync",), ("gthread", "--threads", "1")], ids=["sync", "gthread"]
)
def test_a_request_begins_when_it_came_though_the_worker_was_busy(
    receiver: Receiver, tmp_path: Path, kind: tuple[str, ...]
) -> None:
    (tmp_path / "held.py").write_text(HELD)
    command = (sys.executable, *GUNICORN, "--worker-class", *kind, "held:app")
    with (
        socket.create_server(("127.0.0.1", 0)) as gate,
        traced_server(
            receiver, tmp_path, *command, ready="/healthz", PYTHONPATH=str(tmp_path),
            GATE=str(gate.getsockname()[1]),
        ) as server,
    ):  # fmt: skip
        gate.settimeout(PATIENCE_S)
        host, _, port = server.url.removeprefix("http://").partition(":")
        with (
            socket.create_connection((host, int(port)), PATIENCE_S) as holder,
            socket.create_connection((host, int(port)), PATIENCE_S) as waiter,
        ):
            ask(holder, HOLDS)
            with gate.accept()[0]:
                ask(waiter, WAITS)
                sent_ns = time.time_ns()
                until(lambda: time.time_ns() - sent_ns >= HELD_NS)
            read_all(holder)
            holder.close()  # for which the sync worker waits
            read_all(waiter)

        def told(path: str) -> list[ReceivedSpan]:
            return [span for span in receiver.spans if span.attributes.get("url.path") == path]

        server.wait_until(lambda: bool(told(WAITS)))
        (span,) = told(WAITS)
        waits = sorted(
            (wait for wait in receiver.spans if wait.parent_id == span.span_id),
            key=lambda wait: wait.start_ns,
        )
        assert (
            waits[-1].name == "worker held by GET /holds"
        )  # behind a wait for a processor, if any
        assert span.start_ns == waits[0].start_ns <= sent_ns + JIFFY_NS
        assert waits[-1].end_ns >= sent_ns + HELD_NS
