"""Each tier fires and calms down as the formulas say, and is right as often."""

from itertools import product

import numpy as np
import pytest

from latencytrace.analysis.slo.burn_rate import (
    burn_rules,
    calming_ns,
    detection_ns,
    keep_firing_ns,
)
from latencytrace.model import BurnRule, Tally
from latencytrace.model.objective import DAY_NS, MINUTE_NS, length_text
from latencytrace.service.objectives.counts import ObjectiveCounts
from latencytrace.service.objectives.state import TierState, TierStates
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.few import few
from tests.support.simulation.incidents import START_NS, decided, pages, score, simulated

MONTH, WEEK = made_objective(), made_objective(period_ns=7 * DAY_NS)
STEP_NS = 10 * SECOND_NS
PER_STEP = 1000
CASES = [
    pytest.param(objective, rule, bad_ratio, id=f"{length_text(rule.long_ns)}, {bad_ratio:.0%}")
    for objective, bad_ratio in product((MONTH, WEEK), (1.0, 0.5, 0.2, 0.1, 0.05))
    for rule in burn_rules(objective)
    if detection_ns(objective, rule, bad_ratio) is not None
]


class Watched:
    """One tier under steady traffic."""

    def __init__(self, objective: object, rule: BurnRule) -> None:
        assert isinstance(objective, type(MONTH))
        self.rule = rule
        self.counts = ObjectiveCounts(objective)
        self.tiers = TierStates(of_rule={rule: TierState()})
        self.now_ns = START_NS
        # A little more than the window, in long steps.
        before = round(1.1 * rule.long_ns / STEP_NS)
        for place in range(before, 0, -1):
            self.counts.rings.add(START_NS - place * STEP_NS, Tally(bad=0, total=PER_STEP))

    def until(self, *, fires: bool, bad_ratio: float) -> int:
        """Nanoseconds until it does."""
        started_ns = self.now_ns
        tally = Tally(bad=round(bad_ratio * PER_STEP), total=PER_STEP)
        while self.now_ns - started_ns < 4 * self.rule.long_ns:
            self.now_ns += STEP_NS
            self.counts.rings.add(self.now_ns - STEP_NS // 2, tally)
            [rates] = self.tiers.step(self.counts, self.now_ns)
            if rates.firing is fires:
                return self.now_ns - started_ns
        raise AssertionError("not within four windows")


@pytest.mark.parametrize(("objective", "rule", "bad_ratio"), CASES)
def test_every_tier_fires_when_the_formula_says(
    objective: object, rule: BurnRule, bad_ratio: float
) -> None:
    assert isinstance(objective, type(MONTH))
    theory_ns = detection_ns(objective, rule, bad_ratio)
    assert theory_ns is not None

    found_ns = Watched(objective, rule).until(fires=True, bad_ratio=bad_ratio)
    assert found_ns == pytest.approx(theory_ns, abs=max(MINUTE_NS, theory_ns // 10))


@pytest.mark.parametrize("rule", burn_rules(MONTH), ids=lambda rule: length_text(rule.long_ns))
def test_every_tier_calms_down_when_the_formula_says(rule: BurnRule) -> None:
    watched = Watched(MONTH, rule)
    watched.until(fires=True, bad_ratio=1)
    lasted_ns = max(0, rule.short_ns - (watched.now_ns - START_NS))
    for _ in range(lasted_ns // STEP_NS + 1):  # until the short window is full of it
        watched.now_ns += STEP_NS
        watched.counts.rings.add(
            watched.now_ns - STEP_NS // 2, Tally(bad=PER_STEP, total=PER_STEP)
        )
    theory_ns = calming_ns(MONTH, rule, 1) + keep_firing_ns(MONTH, rule.severity)

    found_ns = watched.until(fires=False, bad_ratio=0)
    assert found_ns == pytest.approx(theory_ns, abs=max(MINUTE_NS, theory_ns // 10))


def test_a_start_never_pages_in_a_day_with_half_an_hour_of_slow_requests() -> None:
    paged = []
    for seed in range(3):
        run = simulated(seed, 1, 2.0, MONTH)
        run.bad[:30] = (0.08 * run.total[:30]).astype(int)
        run.bad[30:] = 0
        paged += pages(run, MONTH)

    assert paged == []


def test_pages_tell_incidents_that_matter_from_others_in_a_simulated_month() -> None:
    run = simulated(2026, 32, 2.0, MONTH)

    found = score(run, pages(run, MONTH))
    # Of a dozen incidents; `tests/benchmarks/bench_alerts.py` judges hundreds.
    assert found.recall >= 0.65
    assert found.precision >= 0.8


@pytest.mark.parametrize("period_days", few(1, [30, 1, 7]))
@pytest.mark.parametrize(("per_s", "bad_ratio"), [(4.0, 0.2), (1.0, 0.3), (0.2, 0.3), (0.02, 0.6)])
def test_one_continuous_incident_is_one_page(
    period_days: int, per_s: float, bad_ratio: float
) -> None:
    objective = made_objective(period_ns=period_days * DAY_NS)
    before, lasts = 720, 720  # steps of a half minute: six hours each
    for seed in (1, 2):
        chance = np.random.default_rng(seed)
        total = chance.poisson(per_s * 30, before + lasts)
        share = np.where(np.arange(len(total)) < before, 0.002, bad_ratio)
        steps = zip(chance.binomial(total, share).tolist(), total.tolist(), strict=True)

        found = decided(steps, objective, burn_rules(objective), 30 * 10**9)

        assert [ended for _, ended in found] == [-1]
