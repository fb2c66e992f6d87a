"""Runs the program of greenlets, and checks what arrives of it."""

import subprocess
import sys

from tests.support.agent import greenlet_program
from tests.support.agent.receiving import Receiver

ORDERS = ("patched-first", "patched-last", "unpatched")
NAMES = {"spawn", "spawn_later", "spawn_raw", "a pool", "a pool of threads", "an executor"}


def check_greenlets(receiver: Receiver, library: str, order: str) -> str:
    """Check that all that a request hands out is part of it; return what was written besides."""
    command = [sys.executable, "-W", "ignore", greenlet_program.__file__, library, order]

    done = subprocess.run(
        [*command, receiver.endpoint], capture_output=True, text=True, timeout=120, check=False
    )

    (request,) = (span for span in receiver.spans if span.name == "request")
    within = {span.name for span in receiver.spans if span.trace_id == request.trace_id}
    assert within >= NAMES | {"a thread"}, done.stderr
    assert {span.name for span in receiver.spans if span.parent_id is None} == {"request"}
    # A variable of the program's own does not travel, as it does not untraced.
    assert done.stdout == f"True 0 {sorted(NAMES | {'nothing'})}\n", done.stderr
    return done.stderr
