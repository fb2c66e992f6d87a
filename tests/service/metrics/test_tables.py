"""A table of requests is counted as its requests are, number for number."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.exposition import generate_latest

from latencytrace.analysis.columns.objects import requests_of
from latencytrace.service.metrics.tables import count_table
from latencytrace.service.metrics.telemetry import Telemetry
from tests.support.builders.made_tables import made_table


@settings(deadline=None)
@given(st.lists(st.integers(0, 1 << 32), min_size=1, max_size=3), st.sampled_from([1, 3, 200]))
def test_tables_are_counted_as_their_requests_are(seeds: list[int], max_cohorts: int) -> None:
    by_tables, one_by_one = Telemetry(max_cohorts), Telemetry(max_cohorts)

    for table in map(made_table, seeds):
        count_table(by_tables.counted, table)
        one_by_one.counted.count(requests_of(table))

    assert shown(by_tables) == shown(one_by_one)


def shown(telemetry: Telemetry) -> list[str]:
    """What is shown of requests, but for when exemplars were seen; in any order."""
    text = generate_latest(telemetry.registry).decode()  # type: ignore[no-untyped-call] # there
    without_times = re.sub(r"(# \{.*\} \S+) \S+$", r"\1", text, flags=re.MULTILINE)
    return sorted(line for line in without_times.splitlines() if "process_" not in line)
