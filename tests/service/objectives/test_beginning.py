"""Since when requests have been bad, though that is longer ago than the window that fires."""

import numpy as np
import pytest

from latencytrace.analysis.slo.burn_rate import burn_rules
from latencytrace.model import Tally
from latencytrace.model.objective import DAY_NS, MINUTE_NS
from latencytrace.service.objectives.counts import ObjectiveCounts
from tests.support.builders.made_objectives import made_objective

NOW_NS = 1_763_690_000 * 10**9
SLOT_NS = 10 * 10**9


def began_ns(bad_since_ns: int, calm_ns: range = range(0)) -> int | None:
    """What is found of ten requests a slot, half of them bad since then but for a calm stretch."""
    objective = made_objective(period_ns=DAY_NS)
    counts = ObjectiveCounts(objective)
    for at_ns in range(NOW_NS - 120 * MINUTE_NS, NOW_NS, SLOT_NS):
        is_bad = at_ns >= bad_since_ns and at_ns not in calm_ns
        counts.rings.add(at_ns, Tally(bad=5 * is_bad, total=10))
    return counts.burning_since_ns(burn_rules(objective)[0], NOW_NS)


@pytest.mark.parametrize("minutes", [1, 5, 20])
def test_it_is_found_behind_the_window_that_fires(minutes: int) -> None:
    since_ns = NOW_NS - minutes * MINUTE_NS

    assert began_ns(since_ns) == pytest.approx(since_ns, abs=SLOT_NS)


def test_of_few_requests_chance_makes_no_stretch_that_was_well() -> None:
    """Three requests in ten seconds, a fifth of them bad: many a minute has none that is."""
    since_ns = NOW_NS - 25 * MINUTE_NS
    late = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        counts = ObjectiveCounts(made_objective(period_ns=7 * DAY_NS))
        for at_ns in range(NOW_NS - 180 * MINUTE_NS, NOW_NS, SLOT_NS):
            total = int(random.poisson(3))
            bad = int(random.binomial(total, 0.2 if at_ns >= since_ns else 0.002))
            counts.rings.add(at_ns, Tally(bad=bad, total=total))
        found_ns = counts.burning_since_ns(burn_rules(counts.objective)[1], NOW_NS)
        late += found_ns is not None and found_ns > since_ns + 4 * MINUTE_NS

    assert late <= 2


def test_an_incident_that_was_over_is_another_one() -> None:
    calm_ns = range(NOW_NS - 20 * MINUTE_NS, NOW_NS - 6 * MINUTE_NS)

    assert began_ns(NOW_NS - 60 * MINUTE_NS, calm_ns) == pytest.approx(calm_ns.stop, abs=SLOT_NS)
