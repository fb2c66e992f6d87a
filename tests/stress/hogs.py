"""Processes that take all the CPU they get."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

# Ends by itself once whoever started it is gone: a test that is killed leaves none behind.
_SPIN = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Let so many processes spin while the block runs."""
    with ExitStack() as running:
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", _SPIN])
            running.callback(process.wait)
            running.callback(process.kill)
        yield
