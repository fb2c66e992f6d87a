"""What `doctor` says of the disk that a service's data take."""

from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from latencytrace.cli.doctor_checks.disk import disk_findings
from latencytrace.service.answers.findings.finding import Finding, Verdict, samples
from latencytrace.service.metrics.storage import StorageMetrics
from latencytrace.service.storage.retention import DAY_NS, Limits, Retention
from latencytrace.service.store import Partition, Table
from tests.support.fakes.contracts import FakeClock, PartitionedStore

GB = 10**9
DAY = 20_000  # 2024-10-04


def day(table: Table, ago: int, size_bytes: int) -> Partition:
    since_ns = (DAY - ago) * DAY_NS
    return Partition(
        table=table, since_ns=since_ns, until_ns=since_ns + DAY_NS, rows=1000, bytes=size_bytes
    )


def findings(limits: Limits, *partitions: Partition) -> Sequence[Finding]:
    """What is said of a service with these partitions."""
    store = PartitionedStore(*partitions)
    retention = Retention(store, limits, FakeClock(DAY * DAY_NS), FakeClock())
    retention.step()
    registry = CollectorRegistry()
    registry.register(StorageMetrics(retention))
    return list(disk_findings(samples(generate_latest(registry).decode())))


@pytest.mark.parametrize(
    ("limit_bytes", "of"), [(20 * GB, " of at most 20.0 GB"), (None, "")], ids=["limit", "off"]
)
def test_it_says_how_much_is_kept_and_since_when(limit_bytes: int | None, of: str) -> None:
    (found,) = findings(
        Limits(max_bytes=limit_bytes), day(Table.REQUESTS, 9, 3 * GB), day(Table.SPANS, 2, GB)
    )

    assert found.verdict is Verdict.FINE
    assert (
        found.what == f"its data take 4.0 GB{of}; spans since 2024-10-02, ledgers since 2024-09-25"
    )


def test_a_day_that_takes_more_than_all_may_is_wrong() -> None:
    (found,) = findings(Limits(max_bytes=GB), day(Table.SPANS, 0, 3 * GB))

    assert found.verdict is Verdict.WRONG
    assert "3.0 GB of at most 1.0 GB" in found.what
    assert "LATENCYTRACE_MAX_DISK" in (found.fix or "")


def test_what_was_dropped_for_want_of_room_is_named() -> None:
    fine, note = findings(Limits(max_bytes=GB), day(Table.SPANS, 3, GB), day(Table.SPANS, 2, GB))

    assert fine.verdict is Verdict.FINE
    assert note.verdict is Verdict.NOTE
    assert note.what == "rows of spans dropped early, for want of room: 1,000"


def test_of_a_service_without_these_metrics_nothing_is_said() -> None:
    assert list(disk_findings([])) == []
