"""What every store promises of the days that it drops."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from latencytrace.plugins import STORES, plugins
from latencytrace.service.clock import now_ns
from latencytrace.service.storage.retention import DAY_NS, SURE_S, Limits, Retention
from latencytrace.service.store import Store, Table
from tests.contracts.conftest import EXAMPLES, StoreOpener
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.otlp_messages import columns, one_span, otlp
from tests.support.fakes.contracts import FakeClock
from tests.support.tables.ledger_tables import write

NAMES = [*(plugin.name for plugin in plugins(STORES)), *EXAMPLES[STORES]]
KEPT, ARRIVED = "a" * 32, "b" * 32


@pytest.fixture(params=NAMES)
def store(
    request: pytest.FixtureRequest, tmp_path: Path, open_named: StoreOpener
) -> Iterator[Store]:
    """A store with two requests, and the spans of one of them kept."""
    opened = open_named(request.param, tmp_path / "data")
    opened.insert([columns(otlp(one_span(KEPT), one_span(ARRIVED)))])
    write(opened, [made_request(trace_id=KEPT), made_request(trace_id=ARRIVED)], [KEPT])
    opened.keep_noted()
    yield opened
    opened.close()


def swept(store: Store, days: float) -> dict[Table, int]:
    """The rows of each table once so many days have passed."""
    steady = FakeClock()
    retention = Retention(store, Limits(), lambda: now_ns() + round(days * DAY_NS), steady)
    retention.step()
    steady.move_s(SURE_S)
    retention.step()
    assert len(retention.partitions) == len(store.partitions())
    return {
        table: sum(one.rows for one in store.partitions() if one.table is table) for table in Table
    }


def test_what_receives_is_kept_and_tells_when_it_arrived(store: Store) -> None:
    rows = swept(store, 0)

    assert rows[Table.REQUESTS] == 2
    assert rows[Table.SPANS] == 1
    assert rows[Table.ARRIVALS] >= 1
    for one in store.partitions():
        assert one.since_ns <= now_ns()
        assert one.until_ns > now_ns() - DAY_NS
        assert one.bytes > 0


def test_arrivals_go_first_then_spans_then_ledgers(store: Store) -> None:
    assert swept(store, 1) == {Table.ARRIVALS: 0, Table.SPANS: 1, Table.REQUESTS: 2}
    assert len(store.kept_spans(KEPT)) == 1
    assert store.kept_spans(ARRIVED) == ()

    assert swept(store, 9) == {Table.ARRIVALS: 0, Table.SPANS: 0, Table.REQUESTS: 2}
    assert store.kept_spans(KEPT) == ()
    assert store.request(KEPT, None) is not None

    assert not any(swept(store, 32).values())
    assert store.request(KEPT, None) is None
    assert store.partitions() == []


def test_a_store_that_was_emptied_takes_more(store: Store) -> None:
    swept(store, 40)
    store.insert([columns(otlp(one_span(KEPT)))])
    write(store, [made_request(trace_id=KEPT)], [KEPT])

    assert store.request(KEPT, None) is not None
    assert len(store.kept_spans(KEPT)) == 1
