"""Which partitions are dropped, in which order, and what is said of it."""

from dataclasses import replace
from math import inf

import pytest

from latencytrace.errors import StoreError
from latencytrace.service.metrics.storage import StorageMetrics
from latencytrace.service.storage.retention import (
    DAY_NS,
    HOUR_NS,
    PACE_S,
    STILL_RECEIVES_NS,
    SURE_S,
    Limits,
    Reason,
    Retention,
    expired,
    full_s,
)
from latencytrace.service.store import Partition, Table
from tests.support.fakes.contracts import FakeClock, PartitionedStore

TODAY = 400  # the day, since the epoch, on which it is 10 o'clock
NOW_NS = TODAY * DAY_NS + 10 * HOUR_NS
GB = 10**9


def day(table: Table, ago: int, size_bytes: int = GB) -> Partition:
    """What arrived on a day."""
    since_ns = (TODAY - ago) * DAY_NS
    return Partition(
        table=table, since_ns=since_ns, until_ns=since_ns + DAY_NS, rows=ago + 1, bytes=size_bytes
    )


def hour(ago: int) -> Partition:
    """What arrived in an hour of today."""
    since_ns = NOW_NS - ago * HOUR_NS
    return Partition(
        table=Table.ARRIVALS, since_ns=since_ns, until_ns=since_ns + HOUR_NS, rows=1, bytes=GB
    )


def dropped(limits: Limits, *partitions: Partition) -> list[tuple[Partition, Reason]]:
    return list(expired(partitions, limits, NOW_NS))


def test_ledgers_spans_and_arrivals_go_by_their_own_age() -> None:
    requests = [day(Table.REQUESTS, ago) for ago in range(34)]
    spans = [day(Table.SPANS, ago) for ago in range(10)]
    arrivals = [hour(ago) for ago in range(6)]

    found = dropped(Limits(max_bytes=None), *requests, *spans, *arrivals)

    assert {reason for _, reason in found} == {Reason.AGE}
    # The whole of a day is old: of 10 o'clock on the 8th day before, nothing is 7 days old yet.
    assert {one for one, _ in found} == {*requests[31:], *spans[8:], *arrivals[3:]}


def test_off_is_for_ever() -> None:
    limits = Limits(requests_ns=None, spans_ns=None, max_bytes=None)

    assert dropped(limits, day(Table.REQUESTS, 399), day(Table.SPANS, 399, 10**15)) == []


def test_spans_go_before_ledgers_and_the_oldest_first() -> None:
    spans = [day(Table.SPANS, ago) for ago in (1, 3, 2)]
    requests = [day(Table.REQUESTS, ago) for ago in (0, 20, 2, 1)]

    at_five = dropped(Limits(max_bytes=5 * GB), *requests, *spans)
    at_two = dropped(Limits(max_bytes=2 * GB), *requests, *spans)

    assert at_five == [(spans[1], Reason.SIZE), (spans[2], Reason.SIZE)]
    assert [one for one, _ in at_two] == [
        *(spans[1], spans[2], spans[0]),
        *(requests[1], requests[2]),
    ]


def test_what_goes_by_age_makes_room() -> None:
    old, young = day(Table.SPANS, 9), day(Table.SPANS, 2)

    assert dropped(Limits(max_bytes=GB), old, young) == [(old, Reason.AGE)]


def test_arrivals_are_never_dropped_for_their_size() -> None:
    assert dropped(Limits(max_bytes=1), hour(2), hour(1), hour(0)) == []


def test_a_partition_that_may_still_receive_stays_whatever_the_limits() -> None:
    nothing = Limits(requests_ns=1, spans_ns=1, max_bytes=1)
    future = day(Table.SPANS, -2)  # the clock was wrong
    today = [day(table, 0) for table in (Table.SPANS, Table.REQUESTS)]
    just_over = replace(day(Table.SPANS, 1), until_ns=NOW_NS - STILL_RECEIVES_NS + 1)

    assert dropped(nothing, future, *today, just_over) == []
    assert dropped(nothing, replace(just_over, until_ns=just_over.until_ns - 1)) != []


def test_it_looks_once_a_minute_and_says_what_it_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    wall, steady = FakeClock(NOW_NS), FakeClock()
    old, young = day(Table.SPANS, 8), day(Table.SPANS, 7)
    store = PartitionedStore(young, old)
    retention = Retention(store, Limits(), wall, steady)

    retention.step()
    steady.move_s(SURE_S)
    retention.step()
    assert store.kept == list(retention.partitions) == [young]
    assert retention.expired() == {(Table.SPANS, Reason.AGE): (1, old.rows)}
    assert "dropped 9 rows of spans that arrived from 1971-01-28T00:00Z" in caplog.text

    wall.move_s(86_400)
    retention.step()
    assert store.kept == [young]
    for _ in range(2):
        steady.move_s(max(PACE_S, SURE_S))
        retention.step()
    assert store.kept == []
    assert retention.expired() == {(Table.SPANS, Reason.AGE): (2, old.rows + young.rows)}


def test_a_clock_that_is_ahead_for_a_moment_makes_nothing_old() -> None:
    wall, steady = FakeClock(NOW_NS), FakeClock()
    store = PartitionedStore(*(day(Table.REQUESTS, ago) for ago in range(20)))
    retention = Retention(store, Limits(), wall, steady)

    wall.move_s(400 * 86_400)
    retention.step()
    wall.move_s(-400 * 86_400)
    steady.move_s(SURE_S)
    retention.step()

    assert len(store.kept) == 20


def test_ledgers_stay_where_even_all_of_them_would_not_make_room() -> None:
    today = replace(day(Table.SPANS, 0), bytes=30 * GB)
    ledgers = [day(Table.REQUESTS, ago) for ago in range(1, 20)]

    found = dropped(Limits(max_bytes=20 * GB), today, day(Table.SPANS, 2), *ledgers)

    assert [one.table for one, _ in found] == [Table.SPANS]


def test_ledgers_outlive_the_arrivals_that_they_are_made_of() -> None:
    last_hour = hour(2)
    ledgers = replace(day(Table.REQUESTS, 0), until_ns=last_hour.until_ns)
    nothing = Limits(requests_ns=1, spans_ns=1, max_bytes=1)

    gone = [
        {one.table for one, _ in expired([last_hour, ledgers], nothing, NOW_NS + hours * HOUR_NS)}
        for hours in range(5)
    ]

    assert [Table.REQUESTS in one for one in gone] == [False, False, False, True, True]
    assert [Table.ARRIVALS in one for one in gone] == [False, True, True, True, True]


def test_a_store_that_fails_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    steady = FakeClock()
    store = PartitionedStore(day(Table.SPANS, 9))
    store.fails = StoreError("the disk is gone")
    retention = Retention(store, Limits(), FakeClock(NOW_NS), steady)

    retention.step()
    steady.move_s(SURE_S)
    retention.step()
    assert "dropped later: the disk is gone" in caplog.text
    assert not retention.expired()

    store.fails = None
    for _ in range(2):
        steady.move_s(max(PACE_S, SURE_S))
        retention.step()
    assert store.kept == []


def test_metrics_say_what_is_kept_since_when_and_what_was_dropped() -> None:
    kept = [day(Table.REQUESTS, 2), day(Table.REQUESTS, 5, 2 * GB), hour(0)]
    store = PartitionedStore(*kept, day(Table.SPANS, 12))
    steady = FakeClock()
    retention = Retention(store, Limits(max_bytes=50 * GB), FakeClock(NOW_NS), steady)
    retention.step()
    steady.move_s(SURE_S)
    retention.step()

    samples = {
        (one.name.removeprefix("latencytrace_service_"), *one.labels.values()): one.value
        for family in StorageMetrics(retention).collect()
        for one in family.samples
    }

    assert samples["store_bytes", "requests"] == 3 * GB
    assert samples["store_bytes", "span_arrivals"] == GB
    assert samples["store_bytes", "spans"] == 0
    assert samples["store_limit_bytes",] == 50 * GB
    assert samples["store_full_seconds",] == inf  # of a month there are 31 GB
    assert samples["store_oldest_timestamp_seconds", "requests"] == 395 * 86_400
    assert ("store_oldest_timestamp_seconds", "spans") not in samples  # none is kept
    assert samples["expired_partitions_total", "spans", "age"] == 1
    assert samples["expired_rows_total", "spans", "age"] == 13
    assert samples["expired_rows_total", "requests", "size"] == 0


def full(limits: Limits, *partitions: Partition) -> float | None:
    return full_s(partitions, limits, NOW_NS)


def test_a_disk_is_full_when_its_room_is_taken_at_the_pace_of_the_last_day() -> None:
    kept = [day(Table.SPANS, ago, 2 * GB) for ago in (1, 2, 3)]

    assert full(Limits(max_bytes=10 * GB), *kept) == pytest.approx(2 * 86_400)
    assert full(Limits(max_bytes=5 * GB), *kept) == 0


def test_today_counts_where_it_is_faster_than_the_last_day() -> None:
    kept = [day(Table.REQUESTS, 1, GB), day(Table.REQUESTS, 0, 5 * GB)]  # in ten hours

    assert full(Limits(max_bytes=11 * GB), *kept) == pytest.approx(10 * 3600)


def test_what_is_dropped_by_its_age_before_never_fills_a_disk() -> None:
    kept = [day(Table.SPANS, 1), day(Table.REQUESTS, 1)]

    assert (
        full(Limits(spans_ns=7 * DAY_NS, requests_ns=30 * DAY_NS, max_bytes=40 * GB), *kept) == inf
    )
    assert full(Limits(max_bytes=None), *kept) == inf
    assert full(Limits(requests_ns=None, max_bytes=40 * GB), *kept) != inf


def test_without_a_whole_day_nothing_is_forecast() -> None:
    assert full(Limits(), day(Table.SPANS, 0), hour(0)) is None
