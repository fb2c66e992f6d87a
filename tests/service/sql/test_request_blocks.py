"""A table of requests is written as its requests are, byte for byte."""

from collections import defaultdict
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.columns.objects import requests_of
from latencytrace.analysis.columns.request_table import RequestTable
from latencytrace.analysis.trace.is_request import as_load
from latencytrace.model import Span
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.sql.request_blocks import block_of as blocks_of
from latencytrace.service.sql.request_blocks import block_of_table, void
from tests.support.builders.made_tables import made_table
from tests.support.builders.spans.recorded import FIXTURES, recorded
from tests.support.simulation.by_columns import ByColumns
from tests.support.simulation.made_traces import made_trace
from tests.support.simulation.simulator import simulate
from tests.support.simulation.ways import WAYS
from tests.support.tables.request_rows import block_of

READ_NS = 1_763_690_000_123_456_789
FIXTURE_NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))
seeds = st.integers(0, 1 << 32)


def is_written_alike(table: RequestTable) -> bool:
    requests = requests_of(table)
    return block_of_table(LedgerTable.new(table), READ_NS) == block_of(requests, [], READ_NS, {})


@given(seeds)
def test_made_traces_are_written_alike(seed: int) -> None:
    random = Random(seed)
    by_columns = ByColumns()
    for _ in range(2):  # shapes of the first batch are known in the second
        table, _ = by_columns.table(
            {f"{one:032x}": made_trace(random, one) for one in range(1, 9)}
        )
        assert is_written_alike(table)


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_what_other_software_sends_is_written_alike(name: str) -> None:
    traces = defaultdict(list)
    for span in recorded(name):
        traces[span.trace_id].append(span)

    assert is_written_alike(ByColumns().table(traces)[0])


@pytest.mark.parametrize("way", WAYS)
def test_a_simulated_system_is_written_alike(way: str) -> None:
    traces: dict[str, list[Span]] = {
        one.trace_id: list(one.spans) for one in simulate(3, 40, {}, WAYS[way])
    }

    assert is_written_alike(ByColumns().table(traces)[0])


@given(seeds, st.data())
def test_the_load_of_a_process_is_written_alike(seed: int, data: st.DataObject) -> None:
    table = made_table(seed)
    loads = [place for place in range(len(table)) if data.draw(st.booleans())]
    before = requests_of(table)

    found = table.as_load(loads)

    expected = [as_load(one) if at in loads else one for at, one in enumerate(before)]
    assert requests_of(found) == expected
    assert is_written_alike(found)
    assert found.counts.tolist() == [one.counts for one in expected]


@given(seeds, st.data())
def test_some_requests_of_a_table_are_those_requests(seed: int, data: st.DataObject) -> None:
    table = made_table(seed)
    places = [place for place in range(len(table)) if data.draw(st.booleans())]
    requests = requests_of(table)

    found = table.taken(np.array(places, np.int64))

    assert requests_of(found) == [requests[place] for place in places]
    assert is_written_alike(found)


@given(seeds, st.integers(1, 3), st.integers(0, (1 << 64) - 1))
def test_rows_that_void_others_stand_before_what_moved_and_were_never_counted(
    seed: int, every: int, start_ns: int
) -> None:
    made = made_table(seed)
    table = replace(LedgerTable.new(made), revision=np.full(len(made), 2, np.uint32))
    voids = [void(key, start_ns, 2) for key in table.keys[::every]]
    counted = dict.fromkeys(table.keys, READ_NS)

    written = blocks_of([table], voids, READ_NS, counted)

    rows = block_of(table.requests(), voids, READ_NS, counted)
    assert written == (rows if len(made) else b"")
