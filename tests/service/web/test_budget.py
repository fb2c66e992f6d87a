"""The pictures of a budget and of its burn rates."""

from latencytrace.service.alerting.over_time import (
    ObjectiveOverTimeDocument,
    TierOverTimeDocument,
)
from latencytrace.service.web.drawing.budget import budget_line, burn_lines

DAY_NS = 86_400 * 10**9


def objective(*left: float | None, since_ns: int = 0) -> ObjectiveOverTimeDocument:
    step = DAY_NS // len(left)
    return ObjectiveOverTimeDocument(
        name="chat",
        service="rag",
        route=None,
        period_ns=DAY_NS,
        since=str(since_ns),
        until=str(DAY_NS),
        budget=[
            {"at": str(step * (place + 1)), "budget_left_ratio": one}
            for place, one in enumerate(left)
        ],
        burn_rates=[],
    )


def tier(*rates: tuple[float | None, float | None]) -> TierOverTimeDocument:
    return TierOverTimeDocument(
        factor=10.0,
        severity="page",
        long_ns=60,
        short_ns=5,
        points=[{"at": "0", "long": long, "short": short} for long, short in rates],
    )


def test_a_whole_budget_is_a_line_at_the_top() -> None:
    assert '<path class="line" d="M477 8L890 8"/>' in budget_line(objective(1.0, 1.0), [])


def test_an_overdrawn_budget_goes_below_zero_into_another_ground() -> None:
    drawn = budget_line(objective(1.0, -1.0), [])

    assert '<rect class="overdrawn" x="64" y="78" width="826" height="70"/>' in drawn
    assert 'd="M477 8L890 148"' in drawn
    assert "-100 %" in drawn


def test_an_alert_that_fires_is_marked_until_now() -> None:
    drawn = budget_line(objective(1.0, 1.0), [(DAY_NS // 2, None), (-20, -10)])

    assert drawn.count("incident") == 1
    assert '<rect class="incident" x="477" y="8" width="413" height="140"/>' in drawn


def test_an_even_burn_ends_where_the_part_of_the_period_ends() -> None:
    drawn = budget_line(objective(1.0, 1.0, since_ns=DAY_NS // 2), [])

    assert '<path class="even" d="M64 8L890 78"/>' in drawn


def test_a_burn_rate_without_traffic_is_a_gap() -> None:
    drawn = burn_lines(tier((0.0, 0.0), (None, None), (14.0, 7.0), (14.0, 7.0)))

    assert '<path class="long" d="M0 38h1M173.3 2L260 2"/>' in drawn
    assert '<path class="limit" d="M0 12.3H260"/>' in drawn
