"""The names of partitions: a day of arrival, or an hour of it."""

from datetime import UTC, datetime

import pytest

from latencytrace.service.sql_store.whole_tables import drop_statements, partitions_from
from latencytrace.service.store import Table

HOUR_NS, DAY_NS = 3600 * 10**9, 24 * 3600 * 10**9
HOUR_S = round(datetime(2026, 11, 22, 13, tzinfo=UTC).timestamp())
DAY_START_NS = round(datetime(2026, 11, 22, tzinfo=UTC).timestamp()) * 10**9


@pytest.mark.parametrize(
    ("table", "name", "since_ns", "until_ns"),
    [
        (Table.ARRIVALS, str(HOUR_S), HOUR_S * 10**9, HOUR_S * 10**9 + HOUR_NS),
        (Table.REQUESTS, "20261122", DAY_START_NS, DAY_START_NS + DAY_NS),
        (Table.SPANS, "20261122", DAY_START_NS, DAY_START_NS + DAY_NS),
    ],
)
def test_a_partition_is_dropped_by_the_name_that_it_was_read_by(
    table: Table, name: str, since_ns: int, until_ns: int
) -> None:
    [partition] = partitions_from([(table.value, name, 3, 4096)])

    assert (partition.table, partition.since_ns, partition.until_ns) == (table, since_ns, until_ns)
    assert (partition.rows, partition.bytes) == (3, 4096)
    assert all(name in statement for statement in drop_statements(partition))


def test_the_rollups_of_a_day_go_after_its_requests_and_with_nothing_else() -> None:
    rows = [(table.value, "20261122", 1, 1) for table in (Table.REQUESTS, Table.SPANS)]
    requests, spans = (list(drop_statements(one)) for one in partitions_from(rows))

    assert len(spans) == 1
    assert len(requests) == 2
    assert Table.REQUESTS.value in requests[0]
    assert "rollups" in requests[1]
