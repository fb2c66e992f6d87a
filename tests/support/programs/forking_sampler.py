"""A program that samples, forks and goes on in the child: prints what the child does.

python tests/support/programs/forking_sampler.py FOLDER
"""

# ruff: noqa: T201 - its output is what a test reads

import os
import sys
import threading
import time
from pathlib import Path
from queue import Queue

sys.path.insert(0, str(Path(__file__).parents[3]))

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.gpu.sampler import GpuSampler, SamplerState
from latencytrace.agent.gpu.watch import MachineLock
from latencytrace.agent.guard import raise_fault
from latencytrace.model.gpu import GpuSample
from tests.support.fakes.contracts import FakeClock, ScriptedGpuReader

PATIENCE_NS = 30_000_000_000


def main() -> None:
    taken: Queue[GpuSample] = Queue()
    reader = ScriptedGpuReader(FakeClock())
    sampler = GpuSampler(
        lambda: [reader],
        lambda samples: taken.put(samples[0]),
        lock=MachineLock("gpu", Path(sys.argv[1])),
        interval_ns=200_000_000,
        now_ns=monotonic_ns,
        on_fault=raise_fault,
    )
    sampler.start()
    taken.get(timeout=100)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        sampler.stop(100)
        return
    sampler.reset_after_fork()
    print(*{thread.name for thread in threading.enumerate()} - {"MainThread"}, sep=",")
    sampler.start()
    begun = monotonic_ns()
    while sampler.state.why_not == SamplerState().why_not and monotonic_ns() - begun < PATIENCE_NS:
        time.sleep(0.01)
    sampler.stop(100)
    print(*reader.calls, sep=",")
    print(sampler.state.why_not, flush=True)


main()
