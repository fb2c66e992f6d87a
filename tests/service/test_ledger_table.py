"""Tables of requests: what goes in as objects comes out as the same."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import Request, SpanKind, Stage, semconv
from latencytrace.service.ledger_table import LedgerTable, each_request
from latencytrace.service.sql.request_blocks import block_of_table
from tests.support.builders.made_requests import made_request
from tests.support.builders.made_tables import made_table
from tests.support.builders.spans.numbered import root, span
from tests.support.compiled import COMPILED
from tests.support.tables.ledger_tables import tables_of
from tests.support.tables.request_rows import block_of

READ_NS = 1_763_690_000_123_456_789
LONGEST_NS = (1 << 63) - 1
COUNTED = (
    semconv.GEN_AI_USAGE_INPUT_TOKENS, semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS,
    semconv.BATCH_SIZE, semconv.QUEUE_DEPTH, semconv.CONCURRENCY, semconv.PREEMPTIONS,
)  # fmt: skip
times_ns = st.integers(0, (1 << 64) - 1)


def some_requests(seed: int, revisions: list[int]) -> list[Request]:
    made = made_table(seed).requests()
    return [
        replace(one, revision=revisions[at % len(revisions)]) if revisions else one
        for at, one in enumerate(made)
    ]


@COMPILED
@given(st.integers(0, 1 << 32), st.lists(st.integers(1, 9), max_size=3))
def test_requests_come_out_as_they_went_in(seed: int, revisions: list[int]) -> None:
    requests = some_requests(seed, revisions)
    [table] = tables_of(requests)

    assert table.requests() == requests
    assert table.keys == [(one.trace_id, one.span_id) for one in requests]
    assert table.is_revised == any(one.revision > 1 for one in requests)
    assert table.counts.tolist() == [one.counts for one in requests]
    places = np.arange(len(requests))[::2]
    assert table.taken(places).requests() == requests[::2]


@COMPILED
@given(st.integers(0, 1 << 32), st.lists(st.integers(1, 9), max_size=3), st.integers(1, 20))
def test_a_table_of_objects_is_written_as_they_are(
    seed: int, revisions: list[int], every: int
) -> None:
    requests = some_requests(seed, revisions)
    [table] = tables_of(requests)
    counted = dict.fromkeys(table.keys[::every], READ_NS - 10**9)

    assert block_of_table(table, READ_NS, counted) == block_of(requests, [], READ_NS, counted)


@given(st.lists(st.sampled_from((0, 7, 1 << 40, 1 << 62, LONGEST_NS, 10**30)), min_size=1))
def test_whatever_spans_count_a_table_holds_it(numbers: list[int]) -> None:
    """As numbers of 64 bits, and in JSON, which has any; all of a trace are added up."""
    usage = semconv.MLFLOW_USAGE
    calls = [
        span(
            number,
            0,
            9,
            kind=SpanKind.CLIENT,
            attributes=dict.fromkeys(COUNTED, min(said, LONGEST_NS))
            | {semconv.MLFLOW_TYPE: "LLM", usage: json.dumps({"output_tokens": said})},
        )
        for number, said in enumerate(numbers, 2)
    ]
    requests = requests_of([root(), *calls], {})

    [table] = tables_of(requests)

    assert table.requests() == list(requests)


@given(times_ns, times_ns)
def test_any_time_of_64_bits_comes_out_and_counts_as_a_long_one(
    start_ns: int, length_ns: int
) -> None:
    request = made_request(stages={Stage.DECODE: length_ns}, start_ns=start_ns)
    [table] = tables_of([request])

    assert list(each_request([table])) == [request]
    counted = table.countable()
    assert counted.duration_ns.tolist() == [min(length_ns, LONGEST_NS)]
    assert counted.start_ns.tolist() == [min(start_ns, LONGEST_NS)]
    [end_ns] = counted.end_ns.tolist()
    assert end_ns == start_ns + length_ns or end_ns >= LONGEST_NS // 2


def test_a_time_that_is_none_is_an_error() -> None:
    with pytest.raises(OverflowError):
        LedgerTable.of([replace(made_request(), duration_ns=-50)])
