"""Time of `tail`, its parts and `compare`, beside that of reading the durations they are of.

    python -m tests.benchmarks.bench_tail [--requests 1700000] [--rounds 5]

The rows are made by the engine, and their windows rolled up as the service does once they are
quiet, so that no question looks for revisions. All are asked in turn.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import chdb

from latencytrace.analysis.tail.groups import Split
from latencytrace.analysis.tail.tail import tail_of
from latencytrace.service.answers import tail as answers
from latencytrace.service.answers.compare import comparison
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql.tables import REQUESTS
from latencytrace.service.sql_store.rollups import PACE_NS
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.stores.chdb.store import ChdbStore

COHORT = Cohort(service="rag")
AT_ONCE = 100_000
BEGIN_S = 1_763_690_000
APART_NS = 2_000_000
WINDOW_NS = 300 * 10**9
MADE = f"""
INSERT INTO {REQUESTS} (TraceId, SpanId, Revision, Outermost, Health, ServiceName,
  ServiceInstance, ServiceVersion, Route, Model, Status, Start, DurationNs, InputTokens,
  OutputTokens, Concurrency, ColdStart, RetrieveNs, PrefillNs, DecodeNs, UnattributedNs,
  `Attributes.Key`, `Attributes.Value`, AttributesLeftOut)
SELECT lower(hex(sipHash128(number, 1))), lower(hex(sipHash64(number, 2))), 1, true, false, 'rag',
  concat('pod-', toString(rand(1) % 8)), '1.0', 'POST /chat', 'small', 'ok',
  fromUnixTimestamp64Nano(toInt64({{begin}} + number * {{apart}})), r + p + d + u,
  toInt64(p / 100000), 200, rand(2) % 20, false, r, p, d, u,
  ['tenant', 'region', 'db.collection.name', 'db.system.name', 'gen_ai.request.model'],
  [concat('t', toString(rand(3) % 10)), 'eu', 'articles', 'qdrant', 'small'], 0
FROM (SELECT number, toUInt64(60e6 * exp(randNormal(0, 0.3)) + (rand(4) % 40 = 0) * 900e6) AS r,
  toUInt64(90e6 * exp(randNormal(0, 0.31))) AS p, toUInt64(500e6 * exp(randNormal(0, 0.2))) AS d,
  toUInt64(8e6) AS u FROM numbers({{first}}, {{count}}))
"""  # noqa: S608 - of constants


def main() -> None:
    """Make the requests, ask, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_700_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = ChdbStore.open(Path(folder) / "data")
        engine = chdb.connect(str(Path(folder) / "data" / "clickhouse"))
        for first in range(0, asked.requests, AT_ONCE):
            count = min(AT_ONCE, asked.requests - first)
            begin_ns = BEGIN_S * 10**9
            engine.query(MADE.format(first=first, count=count, begin=begin_ns, apart=APART_NS))
        engine.close()
        for _ in range(asked.requests * APART_NS // WINDOW_NS + 2):  # a window a step at least
            time.sleep(PACE_NS / 1e9)
            store.roll_up()
        compare(store, asked.rounds)
        store.close()


def compare(store: ChdbStore, rounds: int) -> None:
    """Ask all questions in turn; of the requests one half is compared with the other."""
    durations = store.durations(COHORT)
    split = Split.of(durations, 0.99)
    columns = store.cohort_columns(COHORT, split.bands(), attributes=True)
    middle_s = BEGIN_S + round(len(durations) * APART_NS / 2e9)
    middle = datetime.fromtimestamp(middle_s, UTC).isoformat().replace("+00:00", "Z")
    halves = (
        f"service=rag&since=2000-01-01T00:00:00Z&until={middle}",
        f"service=rag&since={middle}",
    )
    baselines = Baselines(Path("none"))  # none is saved
    questions: dict[str, Callable[[], object]] = {
        "durations": lambda: store.durations(COHORT),
        "tail": lambda: answers.tail(store, COHORT, 0.99),
        "its columns": lambda: store.cohort_columns(COHORT, split.bands(), attributes=True),
        "its split": lambda: Split.of(durations, 0.99),
        "its statistics": lambda: tail_of(columns, split, 0.99),
        "compare": lambda: comparison(store, baselines, halves, 0.03, 0),
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in questions}
    for _ in range(rounds):
        for name, ask in questions.items():
            before = time.process_time(), time.perf_counter()
            ask()
            took[name].append((time.process_time() - before[0], time.perf_counter() - before[1]))
    of_durations_s = median(cpu_s for cpu_s, _ in took["durations"])
    for name, times_s in took.items():
        cpu_s, wall_s = (median(one) for one in zip(*times_s, strict=True))
        print(f"{name:16} {cpu_s:.3f} s CPU, {wall_s:.3f} s, {cpu_s / of_durations_s:.1f}")


if __name__ == "__main__":
    main()
