"""A program that forks while a thread in the background imports: prints what children meet.

python tests/support/programs/forking_imports.py FORKS
"""

# ruff: noqa: T201 - its output is what a test reads

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from latencytrace.agent.gpu.reader import installed_gpu_readers
from latencytrace.agent.guard import raise_fault

PATIENCE_S = 120
LATEST_S = 0.02  # after its beginning an import is over
READERS = ("latencytrace.agent.gpu.readers",)


def readers() -> str:
    return ",".join(type(reader).__name__ for reader in installed_gpu_readers(raise_fault))


def main() -> None:
    by_chance = random.Random(7)
    for _ in range(int(sys.argv[1])):
        for name in [name for name in sys.modules if name.startswith(READERS)]:
            del sys.modules[name]
        thread = threading.Thread(target=readers)
        thread.start()
        time.sleep(by_chance.uniform(0, LATEST_S))
        child = os.fork()
        if not child:
            signal.alarm(PATIENCE_S)  # for one that waits for a thread that did not come along
            try:
                print(readers(), flush=True)
            except AttributeError as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        thread.join()


main()
