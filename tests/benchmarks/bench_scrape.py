"""What a scrape of `/metrics` costs at size: 3 services, 50 routes each, 20 stages.

The client's own encoder, which took 98 000 samples before, against ours: as text, packed, and as
protobuf with native histograms. Every route has requests of its slowest hundredth in every stage,
which are 3 150 counters more. Processor time of a scrape, best of five, and bytes.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from prometheus_client.openmetrics.exposition import generate_latest

from latencytrace.model import Stage
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics.counted_requests import DURATION_BUCKETS
from latencytrace.service.metrics.exposition import scrape
from latencytrace.service.metrics.protobuf import PROTOBUF
from latencytrace.service.metrics.telemetry import Telemetry
from tests.support.builders.made_requests import made_request

ROUNDS, SERVICES, ROUTES, STAGES, REQUESTS = 5, 3, 50, 20, 60
BATCHES = 3  # the last of which knows who is slow
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
BEFORE = (0.0001, 0.00025, 0.0005, *DURATION_BUCKETS)  # of a stage


def filled(**settings: object) -> Telemetry:
    """Every cohort with requests whose stages spread over the buckets."""
    telemetry = Telemetry(**settings)  # type: ignore[arg-type] # those of a version
    chance = np.random.default_rng(1)
    for service in range(SERVICES):
        for route in range(ROUTES):
            times = chance.lognormal(17.5, 1.6, (BATCHES, REQUESTS, STAGES))
            times[-1, -1] *= 100
            for batch in times.astype(int).tolist():
                telemetry.counted.count(LedgerTable.of([
                    made_request(
                        trace_id=f"{chance.integers(1 << 62):032x}",
                        service=f"service-{service}",
                        route=f"POST /v1/resource-{route}/items",
                        stages=dict(zip(Stage, stages, strict=False)),
                        time_to_first_token_ns=sum(stages) // 2,
                        time_per_output_token_ns=stages[0] // 4,
                    )
                    for stages in batch
                ]))  # fmt: skip
    return telemetry


def measured(name: str, read: Callable[[], bytes]) -> float:
    """Print what it takes, and return its processor time."""
    took: list[float] = []
    answer = b""
    for _ in range(ROUNDS):
        began_ns = time.thread_time_ns()
        answer = read()
        took.append((time.thread_time_ns() - began_ns) / 1e9)
    sys.stdout.write(f"{name:<44} {min(took):6.3f} s {len(answer) / 1e6:7.2f} MB\n")
    return min(took)


def body(telemetry: Telemetry, accept: str, packing: str) -> bytes:
    """The answer to a scrape."""
    return scrape(telemetry.registry, accept, packing).body


def main() -> None:
    """Scrape them every way."""
    before, now = filled(stage_buckets=BEFORE), filled()
    samples = sum(len(family.samples) for family in before.registry.collect())
    sys.stdout.write(f"{samples} samples with the buckets of before\n")
    client = measured(
        "client, buckets of before",
        lambda: generate_latest(before.registry),  # type: ignore[no-untyped-call] # there
    )
    for name, telemetry in (("buckets of before", before), ("default buckets", now)):
        for form, accept, packing in (
            ("text", OPEN_METRICS, ""),
            ("text, gzip", OPEN_METRICS, "gzip"),
            ("protobuf, gzip", PROTOBUF, "gzip"),
        ):
            took = measured(f"ours, {name}, {form}", partial(body, telemetry, accept, packing))
            sys.stdout.write(f"{'':<44} {client / took:6.1f} times as fast\n")


if __name__ == "__main__":
    main()
