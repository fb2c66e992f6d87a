"""What loads of many kinds cost a span in the service, from a post's bytes to rows of the store.

    python -m tests.benchmarks.bench_zoo [--traces 400] [--rounds 5] [--seeds 3] [--only NAME]

In one process, CPU time of all of its threads: it says nearly the same on a busy machine. Each
load is decoded, attributed, and laid out as rows for the store; the store itself and HTTP are left
out (see `bench_service`, `bench_pipeline`). The making of posts is not counted.
"""

import argparse
import gc
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from latencytrace.service.ledgers.attribution import Attribution
from latencytrace.service.ledgers.span_parts import by_block, in_few_blocks
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.sql.native import native
from latencytrace.service.sql.request_blocks import block_of
from tests.support.builders.zoo.loads import LOADS, RECORDED, Load, mixture
from tests.support.builders.zoo.posts import Posts
from tests.support.builders.zoo.taken import Taken

STEPS = ("decode", "attribute", "rows")


@dataclass(slots=True)
class Account:
    """What one load cost."""

    ways: Counter[str] = field(default_factory=Counter)  # traces
    us: dict[str, float] = field(default_factory=dict)  # of CPU a span, by step
    bytes_a_span: float = 0.0  # of posts
    attributes_a_span: float = 0.0

    def add(self, spans: int, *seconds: float) -> None:
        """Add a round: the least of all says what it costs where nobody disturbs."""
        for step, one in zip(STEPS, pairwise(seconds), strict=True):
            self.us[step] = min(self.us.get(step, 1e9), (one[1] - one[0]) / spans * 1e6)


def measured(load: Load, traces: int, rounds: int) -> Account:
    """Take a load, the first round of it without being counted."""
    posts, attribution = Posts(load, 1), Attribution(Telemetry(), lambda _: False)
    account = Account()
    for number in range(rounds + 1):
        bodies, spans = posts.made(traces)
        gc.collect()
        began_s = time.process_time()
        checked = posts.checked(bodies)
        decoded_s = time.process_time()
        taken = Taken(checked)
        found = attribution.attributed({}, {}, taken.held)
        attributed_s = time.process_time()
        for block, rows in in_few_blocks(by_block(taken.held.values())):
            native(block, rows)
        block_of(found.tables, [], 0, {})
        written_s = time.process_time()
        account.bytes_a_span = sum(map(len, bodies)) / spans
        account.attributes_a_span = sum(len(one.columns.pairs) for one in checked) / spans
        if number:
            account.add(spans, began_s, decoded_s, attributed_s, written_s)
            account.ways["objects"] += len(found.spans)
            account.ways["columns"] += len(taken.held) - len(found.spans)
    return account


def main() -> None:
    """Measure each load, and hold it against the cheapest."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--traces", type=int, default=400, help="in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seeds", type=int, default=3, help="mixtures, beside the loads with a name"
    )
    parser.add_argument("--only", help="of loads whose name begins so")
    asked = parser.parse_args()
    mixtures = {f"mixture {seed}": mixture(seed) for seed in range(asked.seeds)}
    loads = dict(LOADS) | mixtures | dict(RECORDED)
    loads = {name: one for name, one in loads.items() if name.startswith(asked.only or "")}
    sys.stdout.write(
        f"{'µs of CPU a span':42}{'decode':>8}{'attrib.':>8}{'both':>8}{'rows':>8}"
        "  columns  attributes   bytes a span  ns a byte\n"
    )
    both: dict[str, float] = {}
    for name, load in loads.items():
        account = measured(load, asked.traces, asked.rounds)
        both[name] = account.us["decode"] + account.us["attribute"]
        columns = account.ways["columns"] / account.ways.total()
        shown = account.us["decode"], account.us["attribute"], both[name], account.us["rows"]
        numbers = "".join(f"{one:8.2f}" for one in shown)
        size = f"{account.attributes_a_span:11.1f}{account.bytes_a_span:15.0f}"
        size += f"{both[name] / account.bytes_a_span * 1e3:11.1f}"
        sys.stdout.write(f"{name:42}{numbers}  {columns:6.1%} {size}\n")
        sys.stdout.flush()
    worst, best = max(both, key=both.__getitem__), min(both, key=both.__getitem__)
    sys.stdout.write(f"{worst} costs {both[worst] / both[best]:.2f} times as much as {best}\n")


if __name__ == "__main__":
    main()
