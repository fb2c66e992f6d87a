"""Burn rates against their formulas (The Site Reliability Workbook, chapter 5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.slo.burn_rate import (
    budget_left_ratio,
    burn_rate,
    burn_rules,
    burns,
    calming_ns,
    detection_ns,
    exhaustion_ns,
    is_calm,
    outage_rule,
    scaled_rules,
    usual_requests,
)
from latencytrace.model import BurnRule, Severity, Tally
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS
from tests.support.builders.made_objectives import made_objective

OBJECTIVE = made_objective()
NINES = st.sampled_from([0.95, 0.98, 0.99, 0.995, 0.999])
PERIODS = st.sampled_from([DAY_NS, 7 * DAY_NS, 28 * DAY_NS, 30 * DAY_NS, 90 * DAY_NS])
SHARES = st.floats(0.001, 1)
PER_MINUTE = 100_000  # so many that rounding to whole requests does not show


def stepped(bad_ratio: float, burning_ns: float, window_ns: int) -> Tally:
    """A window at whose end the share of bad requests has been raised for so long."""
    total = round(PER_MINUTE * window_ns / MINUTE_NS)
    return Tally(bad=round(total * bad_ratio * min(1, burning_ns / window_ns)), total=total)


def fires(rule: BurnRule, target_ratio: float, bad_ratio: float, burning_ns: float) -> bool:
    return burns(
        made_objective(target_ratio=target_ratio),
        rule,
        stepped(bad_ratio, burning_ns, rule.long_ns),
        stepped(bad_ratio, burning_ns, rule.short_ns),
        1.0,
    )


def test_the_tiers_over_thirty_days_are_the_known_ones() -> None:
    assert [(rule.factor, rule.long_ns, rule.severity) for rule in burn_rules(OBJECTIVE)] == [
        (28.8, 15 * MINUTE_NS, Severity.PAGE),
        (14.4, HOUR_NS, Severity.PAGE),
        (6, 6 * HOUR_NS, Severity.PAGE),
        (90, 14.4 * MINUTE_NS, Severity.PAGE),
        (3, DAY_NS, Severity.TICKET),
        (1, 3 * DAY_NS, Severity.TICKET),
    ]


@given(PERIODS)
def test_a_tier_means_the_same_share_of_the_budget_in_every_period(period_ns: int) -> None:
    spent = {
        rule.factor: pytest.approx(rule.factor * rule.long_ns / period_ns)
        for rule in scaled_rules(period_ns)
    }

    known = {28.8: 0.01, 14.4: 0.02, 6.0: 0.05, 3.0: 0.1, 1.0: 0.1}
    assert {factor: known[factor] for factor in spent} == spent


def test_tiers_too_short_to_be_counted_are_left_out() -> None:
    assert [rule.factor for rule in scaled_rules(DAY_NS)] == [14.4, 6, 3, 1]


def test_tiers_that_can_never_fire_are_left_out() -> None:
    factors = [rule.factor for rule in burn_rules(made_objective(target_ratio=0.9))]

    assert factors == [6, 9, 3, 1]


@given(NINES, PERIODS, SHARES)
def test_a_step_is_detected_when_the_formula_says(
    target_ratio: float, period_ns: int, bad_ratio: float
) -> None:
    objective = made_objective(target_ratio=target_ratio, period_ns=period_ns)
    for rule in burn_rules(objective):
        detected_ns = detection_ns(objective, rule, bad_ratio)
        if detected_ns is None:
            assert not fires(rule, target_ratio, bad_ratio, rule.long_ns)
        else:
            factor = rule.factor * objective.budget_ratio
            assert detected_ns == pytest.approx(rule.long_ns * factor / bad_ratio)
            assert not fires(rule, target_ratio, bad_ratio, 0.99 * detected_ns)
            assert fires(rule, target_ratio, bad_ratio, 1.01 * detected_ns + MINUTE_NS // 60)


@given(NINES, SHARES)
def test_an_alert_calms_down_when_the_formula_says(target_ratio: float, bad_ratio: float) -> None:
    objective = made_objective(target_ratio=target_ratio)
    for rule in burn_rules(objective):
        after_ns = calming_ns(objective, rule, bad_ratio)
        long = stepped(1, rule.long_ns, rule.long_ns)  # it forgets the incident much later

        def calm_after(passed_ns: float, rule: BurnRule = rule, long: Tally = long) -> bool | None:
            short = stepped(bad_ratio, max(0.0, rule.short_ns - passed_ns), rule.short_ns)
            return is_calm(objective, rule, long, short, 1.0)

        assert calm_after(1.02 * after_ns + 10**9)
        assert after_ns == 0 or not calm_after(0.98 * after_ns - 10**9)


def test_a_burn_rate_of_one_lasts_exactly_the_period() -> None:
    even = Tally(bad=10, total=1000)

    assert burn_rate(OBJECTIVE, even) == pytest.approx(1)
    assert budget_left_ratio(OBJECTIVE, even, 1.0) == pytest.approx(0)
    assert exhaustion_ns(OBJECTIVE, 1.0, 1.0) == OBJECTIVE.period_ns


@given(NINES, st.integers(1, 10**6), st.integers(0, 10**6))
def test_the_budget_left_is_what_was_not_spent(target_ratio: float, total: int, bad: int) -> None:
    objective = made_objective(target_ratio=target_ratio)
    period = Tally(bad=min(bad, total), total=total)

    left = budget_left_ratio(objective, period, 1.0)
    assert left == pytest.approx(1 - period.bad / (objective.budget_ratio * total))


def test_no_traffic_is_unknown_rather_than_healthy() -> None:
    nothing = Tally(bad=0, total=0)

    assert burn_rate(OBJECTIVE, nothing) is None
    assert budget_left_ratio(OBJECTIVE, nothing, 1.0) is None
    assert exhaustion_ns(OBJECTIVE, None, None) is None


def test_silence_is_no_recovery() -> None:
    rule = burn_rules(OBJECTIVE)[0]

    assert is_calm(OBJECTIVE, rule, Tally(bad=9, total=9), Tally(bad=0, total=0), 1.0) is None


def test_an_overdrawn_budget_is_gone_already() -> None:
    assert exhaustion_ns(OBJECTIVE, -0.5, 3.0) == 0


def test_without_a_bad_request_the_budget_lasts_for_ever() -> None:
    assert exhaustion_ns(OBJECTIVE, 1.0, 0.0) is None


def test_half_an_hour_of_slow_requests_after_a_start_does_not_page() -> None:
    rule = burn_rules(OBJECTIVE)[2]
    slow = Tally(bad=800, total=10_000)  # all that there is: half an hour of six

    assert burns(OBJECTIVE, rule, slow, slow, 1.0)
    assert not burns(OBJECTIVE, rule, slow, slow, 0.5 / 6)


@pytest.mark.parametrize(("bad", "fired"), [(9, False), (10, True)])
def test_a_handful_of_bad_requests_never_pages(bad: int, *, fired: bool) -> None:
    rule = burn_rules(OBJECTIVE)[0]
    tally = Tally(bad=bad, total=bad)

    assert burns(OBJECTIVE, rule, tally, tally, 1.0) is fired


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.floats(0, 1))
def test_no_tier_is_calm_and_burning_at_once(
    long_bad: int, short_bad: int, short_good: int, coverage_ratio: float
) -> None:
    short = Tally(bad=short_bad, total=short_bad + short_good)
    long = short + Tally(bad=long_bad, total=2 * long_bad)
    for rule in burn_rules(OBJECTIVE):
        burning = burns(OBJECTIVE, rule, long, short, coverage_ratio)
        assert not (burning and is_calm(OBJECTIVE, rule, long, short, coverage_ratio))


@pytest.mark.parametrize(("usual", "fired"), [(100, True), (2000, True), (3000, False)])
def test_many_bad_of_few_requests_do_not_fire_where_there_are_usually_more(
    usual: float, *, fired: bool
) -> None:
    rule = burn_rules(OBJECTIVE)[1]
    tally = Tally(bad=200, total=200)

    assert burns(OBJECTIVE, rule, tally, tally, 1.0, usual) is fired


@pytest.mark.parametrize(("bad", "fired"), [(37, True), (36, False)])
def test_nearly_all_bad_fires_the_outages_tier_however_few_there_are(
    bad: int, *, fired: bool
) -> None:
    rule, usual = burn_rules(OBJECTIVE)[3], 10**6
    tally = Tally(bad=bad, total=41)

    assert burns(OBJECTIVE, rule, tally, tally, 1.0, usual) is fired


@pytest.mark.parametrize(
    ("bad", "total", "usual", "fired"),
    [(5, 5, 40, True), (4, 4, 40, False), (5, 6, 40, False), (5, 5, 30, False), (9, 9, 30, False)],
)
def test_far_below_the_usual_traffic_five_bad_in_a_row_are_an_outage(
    bad: int, total: int, usual: float, *, fired: bool
) -> None:
    rule, tally = burn_rules(OBJECTIVE)[3], Tally(bad=bad, total=total)

    assert burns(OBJECTIVE, rule, tally, tally, 1.0, usual) is fired


@given(NINES, PERIODS)
def test_an_outage_that_fires_spends_its_share_of_the_budget_at_its_own_traffic(
    target_ratio: float, period_ns: int
) -> None:
    objective = made_objective(target_ratio=target_ratio, period_ns=period_ns)
    rule = outage_rule(objective)

    spent_ratio = rule.factor * rule.long_ns / period_ns
    assert spent_ratio >= 0.03 - 1e-6
    assert rule.long_ns / period_ns >= 14.4 * MINUTE_NS / (30 * DAY_NS) - 1e-9


def test_a_short_period_whose_outages_cannot_be_counted_has_no_tier_for_them() -> None:
    factors = [rule.factor for rule in burn_rules(made_objective(period_ns=DAY_NS))]

    assert factors == [14.4, 6, 3, 1]


@given(NINES, PERIODS, st.integers(1000, 10**6))
def test_at_the_usual_traffic_a_tier_fires_at_its_factor(
    target_ratio: float, period_ns: int, total: int
) -> None:
    objective = made_objective(target_ratio=target_ratio, period_ns=period_ns)

    for rule in burn_rules(objective):
        bad = int(rule.factor * objective.budget_ratio * total) + 20
        tally = Tally(bad=min(bad, total), total=total)
        assert burns(objective, rule, tally, tally, 1.0, total) or bad > total


def test_what_is_usual_leaves_out_what_was_not_observed() -> None:
    period = Tally(bad=0, total=3600)
    share = HOUR_NS / OBJECTIVE.period_ns

    assert usual_requests(OBJECTIVE, period, share, MINUTE_NS) == pytest.approx(60)
    assert usual_requests(OBJECTIVE, Tally(bad=0, total=0), 0.0, MINUTE_NS) == 0
