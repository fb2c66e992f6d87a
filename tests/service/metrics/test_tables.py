"""A table of requests is counted as its requests are, number for number."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.exposition import generate_latest

from latencytrace.analysis.columns import reported
from latencytrace.analysis.columns.request_table import Words
from latencytrace.service.metrics.telemetry import Telemetry
from tests.support.builders.made_tables import made_table
from tests.support.tables.counted_one_by_one import count_one_by_one


@given(st.lists(st.integers(0, 1 << 32), min_size=1, max_size=3), st.sampled_from([1, 3, 200]))
def test_tables_are_counted_as_their_requests_are(seeds: list[int], max_cohorts: int) -> None:
    by_tables, one_by_one = Telemetry(max_cohorts), Telemetry(max_cohorts)

    for table in map(made_table, seeds):
        by_tables.counted.count(table)
        count_one_by_one(one_by_one.counted, table.requests())

    assert shown(by_tables) == shown(one_by_one)


def test_tokens_and_times_by_weight_are_more_than_64_bits_hold() -> None:
    made = made_table(5, 400)
    known = made.known.copy()
    known[:, [reported.INPUT, reported.OUTPUT]] = 1 << 40
    ones, longest_ns = np.ones(len(made), np.int64), 1 << 60
    named = made.roots[0]._replace(service="rag", route="POST /chat", health=False)
    usual = replace(
        made,
        root=0 * ones,
        roots=[named],
        model=Words(0 * ones, [None]),
        weight=None,
        duration_ns=ones,
        known=known,
        repairs={},
    )
    ledger = np.zeros_like(made.ledger)
    ledger[:, 0] = longest_ns
    heavy = replace(usual, weight=ones * 10**6, duration_ns=ones * longest_ns, ledger=ledger)
    telemetry = Telemetry()

    for table in (usual, heavy):
        telemetry.counted.count(table)

    requests = int(usual.counts.sum())
    tokens = 2 * (1 + 10**6) * requests * (1 << 40)
    assert told(telemetry, "latencytrace_tokens_total") == pytest.approx(tokens)
    slowest_s = 10**6 * requests * longest_ns / 1e9
    assert told(telemetry, "latencytrace_slowest_stage_seconds_total") == pytest.approx(slowest_s)


def told(telemetry: Telemetry, name: str) -> float:
    """The sum of a metric over its labels."""
    return sum(
        sample.value
        for family in telemetry.registry.collect()
        for sample in family.samples
        if sample.name == name
    )


def shown(telemetry: Telemetry) -> list[str]:
    """What is shown of requests, but for when exemplars were seen; in any order."""
    text = generate_latest(telemetry.registry).decode()  # type: ignore[no-untyped-call] # there
    without_times = re.sub(r"(# \{.*\} \S+) \S+$", r"\1", text, flags=re.MULTILINE)
    return sorted(line for line in without_times.splitlines() if "process_" not in line)
