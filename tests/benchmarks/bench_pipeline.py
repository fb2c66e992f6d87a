"""What a span costs in the service from its post's bytes to the stored ledger, without HTTP.

    python -m tests.benchmarks.bench_pipeline [--groups 100] [--steps]

The posts of `bench_service` are decoded, written to the journal, attributed and stored by a
pipeline and an embedded store in this process, as fast as they are let in. CPU time is that of all
threads, the engine's among them, less that of making the posts: it says nearly the same on a busy
machine. With `--steps` it says where that time went, which
costs some of it.
"""

import argparse
import gc
import random
import resource
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from latencytrace.errors import OverloadedError
from latencytrace.service.ingest.committer import Committer
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.ledgers import attribution, attributor, column_attribution
from latencytrace.service.ledgers.context import PipelineContext
from latencytrace.service.ledgers.open_traces import OpenTraces
from latencytrace.service.ledgers.pipeline import Pipeline
from latencytrace.service.metrics.settling import Settling
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.sql import native, request_blocks
from latencytrace.service.sql_store.store import SqlStore
from latencytrace.service.stores.chdb.engine import Connection
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.benchmarks.bench_service import BASE_NS, Pattern

WARM_GROUPS = 4
SPANS_A_POST = 512
STEPS: Final[Sequence[tuple[str, object, Sequence[str]]]] = (
    ("decoding, redaction, shapes", otlp, ("check",)),
    ("open traces", OpenTraces, ("arrived", "due", "held", "attributed")),
    ("journal", Journal, ("append", "rotate")),
    ("commits", Committer, ("submit", "release", "_begun")),
    ("traces joined as a batch", column_attribution, ("batch_of",)),
    ("attribution over columns", column_attribution, ("attributed",)),
    ("the table of requests", column_attribution.ColumnAttribution, ("table",)),
    ("attribution, the rest", attribution.Attribution, ("attributed",)),
    ("blocks of posts joined", attributor._Writer, ("write",)),
    ("spans as ready blocks", native, ("native",)),
    ("requests as ready blocks", request_blocks, ("block_of",)),
    ("ready blocks joined and handed over", SqlStore, ("keep", "write")),
    ("inserts, on the thread that asks", Connection, ("insert",)),
    ("metrics", Settling, ("add", "settled")),
)


class Account:
    """CPU time by step, on the threads of Python, and of the engine's threads."""

    def __init__(self) -> None:
        self.steps_s: defaultdict[str, float] = defaultdict(float)
        self._inner = threading.local()
        for step, owner, names in STEPS:
            for name in names:
                setattr(owner, name, self._timed(step, getattr(owner, name)))

    def _timed(self, step: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def timed(*args: object, **kwargs: object) -> object:
            outer_s, self._inner.s = getattr(self._inner, "s", 0.0), 0.0
            began_s = time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                took_s = time.thread_time() - began_s
                self.steps_s[step] += took_s - self._inner.s
                self._inner.s = outer_s + took_s

        return timed

    def begin(self) -> None:
        """Forget what was before."""
        self.steps_s.clear()
        self._add_engine(-1)

    def end(self, used_s: float) -> Sequence[tuple[str, float]]:
        """The time of each step, and what is left of all, the longest first."""
        self._add_engine(1)
        self.steps_s["all else"] = used_s - sum(self.steps_s.values())
        return sorted(self.steps_s.items(), key=itemgetter(1), reverse=True)

    def _add_engine(self, sign: int) -> None:
        """Add, or subtract, what the engine's threads have used so far."""
        for thread in Path("/proc/self/task").iterdir():
            name = (thread / "comm").read_text().strip()
            step = "the engine's merges" if name == "MergeMutate" else "the engine's inserts"
            if not name.startswith("python"):
                used_ns = int((thread / "schedstat").read_text().split()[0])
                self.steps_s[step] += sign * used_ns / 1e9


def send(
    pipeline: Pipeline, patterns: Sequence[Pattern], groups: int, chance: random.Random
) -> tuple[int, float]:
    """Send groups of posts, and wait for their ledgers; how many spans, and CPU of making them."""
    spans, made_s = 0, 0.0
    for number in range(groups):
        pattern = patterns[number % len(patterns)]
        began_s = time.thread_time()
        shift_ns = time.time_ns() - BASE_NS - 500_000_000
        bodies = pattern.bodies(chance.getrandbits(64), shift_ns)
        made_s += time.thread_time() - began_s
        for body in bodies:
            checked = otlp.check(body, otlp.PROTOBUF, None)
            while True:
                try:
                    pipeline.submit(checked).result()
                except OverloadedError:
                    time.sleep(0.2)
                else:
                    break
        spans += pattern.spans
    while pipeline._traces.count:
        time.sleep(0.1)
    return spans, made_s


def main() -> None:
    """Run it, and say what it cost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=100, help="of 4 096 spans")
    parser.add_argument("--steps", action="store_true", help="say where the time goes; Linux")
    asked = parser.parse_args()
    account = Account() if asked.steps else None
    patterns = [Pattern(seed, SPANS_A_POST) for seed in range(2)]
    chance = random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        store = ChdbStore.open(Path(folder) / "data")
        journal = Journal(Path(folder) / "journal")
        pipeline = Pipeline(
            store, Telemetry(), time.monotonic_ns, PipelineContext(settle_s=10.0), journal
        )
        pipeline.start()
        send(pipeline, patterns, WARM_GROUPS, chance)
        gc.freeze()  # as a service does
        if account:
            account.begin()
        before_s, began_s = time.process_time(), time.monotonic()
        spans, made_s = send(pipeline, patterns, asked.groups, chance)
        used_s = time.process_time() - before_s - made_s
        wall_s = time.monotonic() - began_s
        steps = account.end(used_s) if account else ()
        pipeline.close()
        store.close()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name, value in (
        ("spans", spans),
        ("spans a second", spans / wall_s),
        ("CPU s a million spans", used_s / spans * 1e6),
        ("peak MiB", peak_mib),
    ):
        sys.stdout.write(f"{name:28} {value:>14,.1f}\n")
    for name, took_s in steps:
        sys.stdout.write(f"{name:36} {took_s / spans * 1e6:>6.2f}\n")


if __name__ == "__main__":
    main()
