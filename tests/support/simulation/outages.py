"""Simulated outages at a fraction of the usual traffic, and what the service says of them.

Two kinds: traffic was low already, as at night, when everything began to fail; or the outage
took the traffic with it, from one minute to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from latencytrace.model import BurnRule, Objective, Severity, Tally
from latencytrace.service.objectives.counts import ObjectiveCounts
from latencytrace.service.objectives.state import SilenceState, TierState, TierStates
from tests.support.simulation.incidents import START_NS, USUAL_BAD

STEP_S = 30
STEP_NS = STEP_S * 10**9
DAY = 24 * 3600 // STEP_S  # steps
EVENING, NIGHT, OUTAGE = (minutes * 60 // STEP_S for minutes in (120, 90, 240))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Minutes from its beginning until something was said; None: not within four hours."""

    page_min: float | None
    silence_min: float | None

    @property
    def told_min(self) -> float | None:
        """The first of both."""
        known = [one for one in (self.page_min, self.silence_min) if one is not None]
        return min(known, default=None)


def outage(
    seed: int,
    objective: Objective,
    rules: Sequence[BurnRule],
    per_s: float,
    share: float,
    *,
    sudden: bool,
) -> Outage:
    """Run one: a usual day, perhaps an evening and a night, and then every request is bad.

    Args:
        seed: Of its chance.
        objective: Whose requests they are.
        rules: The tiers that watch it.
        per_s: Requests a second, usually.
        share: What of them is left.
        sudden: Whether they went when the outage began.
    """
    chance = np.random.default_rng(seed)
    falls = np.ones(0) if sudden else share ** np.linspace(0, 1, EVENING)
    night = np.ones(0) if sudden else np.full(NIGHT, share)
    before = np.concatenate([np.ones(DAY), falls, night])
    rate = np.concatenate([before, np.full(OUTAGE, share)])
    total = chance.poisson(STEP_S * per_s * rate)
    bad = chance.binomial(total, np.where(np.arange(len(rate)) < len(before), USUAL_BAD, 1.0))
    counts, silence = ObjectiveCounts(objective), SilenceState()
    pages = {rule: TierState() for rule in rules if rule.severity is Severity.PAGE}
    tiers = TierStates(of_rule=pages)
    found: dict[str, float] = {}
    for place, (of_bad, of_all) in enumerate(zip(bad.tolist(), total.tolist(), strict=True)):
        now_ns = START_NS + place * STEP_NS
        if of_all:
            counts.rings.add(now_ns, Tally(bad=of_bad, total=of_all))
        if place < len(before):
            continue
        fires = any(rates.firing for rates in tiers.step(counts, now_ns))
        silence.step(counts, START_NS, now_ns, page_fires=fires)
        minutes = (place - len(before) + 1) * STEP_S / 60
        if fires:
            found.setdefault("page", minutes)
        if silence.firing_ns is not None:
            found.setdefault("silence", minutes)
    return Outage(page_min=found.get("page"), silence_min=found.get("silence"))
