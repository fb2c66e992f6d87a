"""Which requests keep their spans."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.columns.objects import requests_of
from latencytrace.model import Request, RequestStatus, Span, StatusCode
from latencytrace.service.ledgers.retention import SpanKeeping
from tests.support.builders.made_requests import made_request
from tests.support.builders.made_tables import made_table
from tests.support.builders.spans.otlp_messages import one_span
from tests.support.compiled import COMPILED
from tests.support.tables.ledger_tables import tables_of

FIRST_ID = "0" * 32
LAST_ID = "f" * 32
MS = 1_000_000


def ordinary(duration_ns: int = MS, trace_id: str = LAST_ID, route: str = "POST /chat") -> Request:
    return replace(made_request(duration_ns=duration_ns), trace_id=trace_id, route=route)


def keeps(keeping: SpanKeeping, request: Request) -> bool:
    [table] = tables_of([request])
    return bool(keeping.keeps_of(table)[0])


def settled(ratio: float) -> SpanKeeping:
    """One that has seen enough to know what is slow."""
    keeping = SpanKeeping(ratio)
    for step in range(300):
        keeps(keeping, ordinary(10 * MS + step % 10))
    return keeping


def test_every_request_keeps_its_spans_at_a_ratio_of_one() -> None:
    assert keeps(settled(1.0), ordinary())


def test_no_ordinary_request_keeps_its_spans_at_a_ratio_of_nothing() -> None:
    assert not keeps(settled(0.0), ordinary(trace_id=FIRST_ID))


def test_the_trace_id_decides_between() -> None:
    keeping = settled(0.5)

    assert keeps(keeping, ordinary(trace_id=FIRST_ID))
    assert not keeps(keeping, ordinary(trace_id=LAST_ID))


def test_failed_requests_keep_their_spans() -> None:
    assert keeps(settled(0.0), replace(ordinary(), status=RequestStatus.ERROR))


def test_slow_requests_keep_their_spans() -> None:
    assert keeps(settled(0.0), ordinary(11 * MS))


def test_what_is_slow_is_told_by_the_latest_of_the_route() -> None:
    keeping = settled(0.0)
    for step in range(300):
        keeps(keeping, ordinary(20 * MS + step % 10))

    assert not keeps(keeping, ordinary(11 * MS))


def test_about_one_in_twenty_is_slow() -> None:
    keeping = settled(0.0)
    kept = [keeps(keeping, ordinary(MS * (1 + step * 7919 % 1000))) for step in range(2000)]

    assert 0.03 < sum(kept[200:]) / 1800 < 0.08


def test_routes_beyond_the_bound_share_one_memory() -> None:
    keeping = SpanKeeping(0.0)
    kept = [keeps(keeping, ordinary(MS, route=f"GET /{number}")) for number in range(500)]

    assert all(kept[:200])
    assert not all(kept[200:])


def step(duration_ns: int = MS, trace_id: str = LAST_ID) -> Span:
    return one_span(trace_id, start_ns=0, end_ns=duration_ns)


def test_shared_steps_are_kept_by_the_same_rules() -> None:
    keeping = SpanKeeping(0.5)
    for number in range(300):
        keeping.keeps_step(step(10 * MS + number % 10))

    assert keeping.keeps_step(step(trace_id=FIRST_ID))
    assert keeping.keeps_step(step(11 * MS))
    assert keeping.keeps_step(replace(step(), status=StatusCode.ERROR))
    assert not keeping.keeps_step(step())


def test_a_step_is_slow_by_how_long_it_took_not_by_when_it_was() -> None:
    keeping = SpanKeeping(0.0)
    later = [
        replace(one, start_ns=one.start_ns + number * MS, end_ns=one.end_ns + number * MS)
        for number in range(300)
        for one in [step(10 * MS - number % 10)]
    ]

    kept = [keeping.keeps_step(one) for one in later]

    assert not any(kept[100:])


@COMPILED
@given(st.lists(st.integers(0, 1 << 32), min_size=1, max_size=3), st.sampled_from([0.0, 0.4, 1.0]))
def test_a_table_keeps_the_spans_that_its_requests_keep(seeds: list[int], ratio: float) -> None:
    of_tables, one_by_one = SpanKeeping(ratio), SpanKeeping(ratio)

    for table in map(made_table, seeds):
        expected = [keeps(one_by_one, request) for request in requests_of(table)]
        assert of_tables.keeps_of(table).tolist() == expected
