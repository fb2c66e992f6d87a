"""A program that reads a GPU, forks and reads in the child: prints what each is told.

python tests/support/programs/forking_reader.py LIBRARY
"""

# ruff: noqa: T201 - its output is what a test reads

import os
import sys
from pathlib import Path

import pynvml

sys.path.insert(0, str(Path(__file__).parents[3]))

from latencytrace.agent.gpu.reader import Detail
from latencytrace.agent.gpu.readers.nvml.reader import NvmlReader
from latencytrace.errors import GpuUnavailableError
from tests.support.fakes.nvml import FakeNvml


def main() -> None:
    nvml = FakeNvml(Path(sys.argv[1]))
    pynvml.nvmlLib = nvml.library
    nvml.strict_after_fork()
    reader = NvmlReader(library=nvml.path)
    reader.open()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        print("parent reads", len(reader.read(Detail.FAST)), flush=True)
        return
    try:
        reader.read(Detail.FAST)
    except GpuUnavailableError:
        print("the parent's state is not the child's", flush=True)
    reader.reset_after_fork()
    print("child finds", len(reader.open()), flush=True)
    reader.close()


main()
