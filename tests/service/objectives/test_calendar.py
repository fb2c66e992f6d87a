"""Periods that begin with the calendar, and the budgets that last over them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.slo.burn_rate import burn_rules
from latencytrace.model import BurnRates, Calendar, Tally
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS
from latencytrace.service.objectives.alerts import period_bounds_ns, standing_of
from latencytrace.service.objectives.counts import ObjectiveCounts
from tests.support.builders.made_objectives import made_objective

MONTHLY = Calendar(start="2026-01-01T00:00:00", zone="Europe/Berlin", months=1)


def ns(text: str, zone: str = "Europe/Berlin") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 10**9


@pytest.mark.parametrize(
    ("calendar", "now", "start", "end"),
    [
        (MONTHLY, "2026-03-15T12:00:00", "2026-03-01T00:00:00", "2026-04-01T00:00:00"),
        (MONTHLY, "2025-12-31T23:59:59", "2025-12-01T00:00:00", "2026-01-01T00:00:00"),
        (MONTHLY, "2026-02-01T00:00:00", "2026-02-01T00:00:00", "2026-03-01T00:00:00"),
        (
            Calendar(start="2026-01-31T12:00:00", zone="Europe/Berlin", months=1),
            "2026-03-01T00:00:00", "2026-02-28T12:00:00", "2026-03-31T12:00:00",
        ),
        (
            Calendar(start="2026-01-05T00:00:00", zone="Europe/Berlin", days=7),
            "2026-03-30T00:00:00", "2026-03-30T00:00:00", "2026-04-06T00:00:00",
        ),
        (
            Calendar(start="2026-01-01T00:00:00", zone="Europe/Berlin", months=3),
            "2026-06-30T23:00:00", "2026-04-01T00:00:00", "2026-07-01T00:00:00",
        ),
    ],
)  # fmt: skip
def test_the_period_of_now_is_that_of_the_calendar(
    calendar: Calendar, now: str, start: str, end: str
) -> None:
    assert period_bounds_ns(calendar, ns(now)) == (ns(start), ns(end))


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)),  # noqa: DTZ001 - UTC is put on
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"]),
    st.sampled_from([{"months": 1}, {"months": 3}, {"days": 1}, {"days": 14}]),
)
def test_every_moment_is_in_one_period(now: datetime, zone: str, length: dict[str, int]) -> None:
    calendar = Calendar(start="2026-01-31T02:30:00", zone=zone, **length)
    now_ns = int(now.replace(tzinfo=UTC).timestamp()) * 10**9
    start_ns, end_ns = period_bounds_ns(calendar, now_ns)

    assert start_ns <= now_ns < end_ns
    assert period_bounds_ns(calendar, end_ns)[0] == end_ns
    assert period_bounds_ns(calendar, start_ns)[0] == start_ns


def spent(until: str, calendar: Calendar | None) -> tuple[int, float | None, int | None]:
    """Ten requests a minute for sixty days, 2 % of them bad in January and none from then on."""
    counts = ObjectiveCounts(made_objective(calendar=calendar))
    end_ns = ns(until)
    at_ns = end_ns - 33 * DAY_NS
    while at_ns < end_ns:
        is_bad = at_ns < ns("2026-02-01T00:00:00")
        counts.rings.add(at_ns, Tally(bad=6 * is_bad, total=300))
        at_ns += 5 * MINUTE_NS
    standing = standing_of(counts, (), end_ns)
    return standing.bad, standing.budget_left_ratio, standing.budget_since_ns


def test_a_calendars_budget_is_whole_again_when_its_period_begins() -> None:
    bad, left, since_ns = spent("2026-02-10T00:00:00", MONTHLY)

    assert (bad, left, since_ns) == (0, 1.0, ns("2026-02-01T00:00:00"))
    assert spent("2026-02-10T00:00:00", None)[0] > 0


def test_a_calendars_budget_is_spent_as_its_period_passes() -> None:
    _, half, _ = spent("2026-01-16T00:00:00", MONTHLY)
    _, whole, _ = spent("2026-01-31T00:00:00", MONTHLY)

    # Twice the share that may be bad: all of it is spent in half the period.
    assert half == pytest.approx(0.0, abs=0.01)
    assert whole == pytest.approx(-1.0, abs=0.01)


@pytest.mark.parametrize(("calendar", "is_gone"), [(MONTHLY, False), (None, True)])
def test_a_budget_that_outlives_its_period_is_never_gone(
    calendar: Calendar | None, *, is_gone: bool
) -> None:
    objective = made_objective(calendar=calendar)
    counts = ObjectiveCounts(objective)
    now_ns = ns("2026-01-31T18:00:00")
    for hours in range(24 * 30):
        counts.rings.add(now_ns - hours * HOUR_NS, Tally(bad=1, total=200))
    hour = burn_rules(objective)[1]
    rates = (BurnRates(rule=hour, long=0.5, short=0.5, firing=False),)
    standing = standing_of(counts, rates, now_ns)

    assert standing.budget_left_ratio is not None
    assert standing.budget_left_ratio > 0.4
    assert (standing.exhaustion_ns is not None) is is_gone
