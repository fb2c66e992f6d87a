"""What a span costs in the service from its post's bytes to the stored ledger, without HTTP.

    python -m tests.benchmarks.bench_pipeline [--groups 100]

The posts of `bench_service` are decoded, written to the journal, attributed and stored by a
pipeline and an embedded store in this process, as fast as they are let in. CPU time is that of all
threads, the engine's among them, less that of making the posts: it says nearly the same on a busy
machine. What is compiled is loaded before.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from latencytrace.errors import OverloadedError
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.ledgers.pipeline import Pipeline
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.benchmarks.bench_service import BASE_NS, Pattern

WARM_GROUPS = 4
SPANS_A_POST = 512


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
    while pipeline._traces.count:  # noqa: SLF001 - as /metrics shows it
        time.sleep(0.1)
    return spans, made_s


def main() -> None:
    """Run it, and say what it cost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=100, help="of 4 096 spans")
    groups = parser.parse_args().groups
    patterns = [Pattern(seed, SPANS_A_POST) for seed in range(2)]
    chance = random.Random(5)  # noqa: S311 - ids that differ are enough
    with tempfile.TemporaryDirectory() as folder:
        store = ChdbStore.open(Path(folder) / "data")
        journal = Journal(Path(folder) / "journal")
        pipeline = Pipeline(store, Telemetry(), time.monotonic_ns, journal=journal, settle_s=10.0)
        pipeline._columns.compile().join()  # noqa: SLF001 - as under load
        pipeline.start()
        send(pipeline, patterns, WARM_GROUPS, chance)
        before_s, began_s = time.process_time(), time.monotonic()
        spans, made_s = send(pipeline, patterns, groups, chance)
        used_s = time.process_time() - before_s - made_s
        wall_s = time.monotonic() - began_s
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


if __name__ == "__main__":
    main()
