"""A program that ends, or forks, while torch's profiler records."""

import os
import sys
import time

import torch

import latencytrace
from latencytrace.agent import start
from latencytrace.agent.profiling.capture import Capture, CapturePhase
from tests.support.models.tiny_chat import tiny_chat

PATIENCE_S = 120.0


def main(endpoint: str, how: str) -> None:
    """Serve until it records, then end."""
    latencytrace.instrument("profiled", endpoint=endpoint)
    agent = start._running
    assert agent is not None
    chat = tiny_chat()
    torch.set_num_threads(1)  # a pool of OpenMP does not survive a fork
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        chat.model.generate(chat.prompt(), max_new_tokens=4, do_sample=False)
        capture = agent.recorder.steps.listener
        if isinstance(capture, Capture) and capture.phase is CapturePhase.CAPTURING:
            break
    sys.stdout.write("recording\n")
    sys.stdout.flush()
    if how == "exit":
        sys.exit(3)
    if how == "fork":
        child = os.fork()
        if child == 0:
            chat.model.generate(chat.prompt(), max_new_tokens=4, do_sample=False)
            sys.stdout.write("child\n")
            sys.stdout.flush()
            os._exit(0)  # as multiprocessing's do: Kineto hangs in `exit` of a forked child
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
