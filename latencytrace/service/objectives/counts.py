"""Counts of one objective: its requests over time, and the latest of them."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.verdicts import BAD, GOOD, NOT_JUDGED, in_cohort, verdicts
from latencytrace.analysis.slo.burn_rate import usual_requests
from latencytrace.analysis.slo.over_time import Slots, burning_since
from latencytrace.analysis.slo.traffic import LOOK_NS, LULL_DAYS
from latencytrace.model import (
    BurnRule,
    Objective,
    Tally,
)
from latencytrace.model.objective import DAY_NS, EACH_ROUTE, HOUR_NS
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.objectives.latest import LatestRequests
from latencytrace.service.objectives.tally_ring import FINE_SPAN_NS, rings_of

_FASTEST_IN_PERIOD = 34_560  # short windows of the fastest tier
_LOOKED_BACK = 16  # windows in which the beginning of a burn is looked for
_STEPS = 500  # of what is covered of a window: how exactly that is known


def series_of(objective: Objective) -> str:
    """The key of an objective's counts: with another threshold they are others."""
    counted = (
        objective.service, objective.route, objective.model, objective.version,
        objective.measured, objective.threshold_ns,
        *(() if objective.slices is None else (objective.slices,)),
    )  # fmt: skip
    return f"{objective.name}:{sha256(repr(counted).encode()).hexdigest()[:16]}"


class ObjectiveCounts:
    """Counts each request once, when it has settled; exact, whatever the histograms hold.

    Attributes:
        rings: Requests, or slices of time, that were judged.
        latest: Requests that an alert may have to describe.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._coverages: dict[tuple[int, int], tuple[int, float]] = {}  # when each was found
        self.rings = rings_of(objective)
        self.latest = LatestRequests()

    def change(self, objective: Objective) -> None:
        """Count the same requests for an objective whose target or tiers are others now."""
        self.objective = objective
        self._coverages.clear()

    @property
    def series(self) -> str:
        return series_of(self.objective)

    def count(
        self, table: LedgerTable, places: NDArray[np.int64], at_ns: NDArray[np.int64]
    ) -> int:
        """Count requests of its cohort; how many are too long ago.

        Args:
            places: (n,): where they are in it.
            at_ns: (n,): the moment at which each counts.
        """
        places, at_ns, is_good = self.note(table, places, at_ns)
        weights = None if table.weight is None else table.weight[places]
        return self.rings.add_all(at_ns, ~is_good, weights)

    def tally(self, until_ns: int, window_ns: int) -> Tally:
        """Tally of what was judged in a window: requests, or slices of time in `SLICE_PARTS`."""
        return self.rings.of(window_ns).tally(until_ns - self.rings.delay_ns, window_ns)

    def requests(self, until_ns: int, window_ns: int) -> Tally:
        """The requests of a window of some hours that came, whatever is judged."""
        return self.rings.requests.tally(until_ns, window_ns).came

    def is_lull(self, now_ns: int, most: float) -> bool:
        """Tell whether ten minutes of this hour brought as few on each of the days before."""
        ring, slices = self.rings.of(self.objective.period_ns), self.objective.slices
        # Of slices of time no requests are known that long: then none of them may have had any.
        most, look_ns = (most, LOOK_NS) if slices is None else (0, max(LOOK_NS, slices.length_ns))
        ends_ns = [now_ns - day * DAY_NS + HOUR_NS // 2 for day in range(1, LULL_DAYS + 1)]
        found = [ring.fewest(end_ns, HOUR_NS, look_ns) for end_ns in ends_ns]
        return all(fewest is not None and fewest <= most for fewest in found)

    def coverage_ratio(
        self, until_ns: int, window_ns: int, longest_pause_ns: int | None = None
    ) -> float:
        """The share of a window without its pauses longer than that, or than a twelfth of it."""
        pause_ns = window_ns // 12 if longest_pause_ns is None else longest_pause_ns
        known = self._coverages.get((window_ns, pause_ns))
        # Of a long window it changes slowly, and costs more to know than all else.
        if known is not None and until_ns - known[0] < known[1] * window_ns / _STEPS:
            return known[1]
        ring = self.rings.of(window_ns)
        found = ring.coverage_ratio(until_ns - self.rings.delay_ns, window_ns, pause_ns)
        self._coverages[window_ns, pause_ns] = until_ns, found
        return found

    def usual_requests(self, until_ns: int, window_ns: int) -> float:
        """Mean tally of a window over the period."""
        period_ns = self.objective.period_ns
        period = self.tally(until_ns, period_ns)
        coverage_ratio = self.coverage_ratio(until_ns, period_ns)
        return usual_requests(self.objective, period, coverage_ratio, window_ns)

    def burning_since_ns(self, rule: BurnRule, until_ns: int) -> int | None:
        """When the burn that a tier found began; None: no request of its window was bad.

        Where it burnt from the beginning of the window on, it is looked for before it.
        """
        window_ns = rule.long_ns
        calm_ns = max(rule.short_ns // 3, 2 * self.objective.period_ns // _FASTEST_IN_PERIOD)
        least_ratio = rule.factor * self.objective.budget_ratio
        while True:
            ring = self.rings.of(window_ns)
            first_ns, bad, total = ring.slots(until_ns - self.rings.delay_ns, window_ns)
            calm_slots = -(-calm_ns // ring.slot_ns)
            place = burning_since(bad, total, least_ratio, calm_slots)
            if place is None:
                return None
            if place > max(calm_slots, len(total) // 2) or 2 * window_ns > min(
                _LOOKED_BACK * rule.long_ns, FINE_SPAN_NS
            ):
                return first_ns + place * ring.slot_ns
            window_ns *= 2

    def slots(self, until_ns: int, window_ns: int) -> Slots:
        ring = self.rings.of(window_ns)
        until_ns -= self.rings.delay_ns
        found = ring.slots(until_ns, window_ns)
        return Slots.of(ring.slot_ns, *found, until_ns - window_ns, until_ns)

    def note(
        self, table: LedgerTable, places: NDArray[np.int64], at_ns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Note what there is to say of requests.

        Returns:
            Places and moments of the judged requests, and whether each is good.
        """
        found = verdicts(self.objective, table)[places]
        judged = found != NOT_JUDGED
        places, at_ns, is_good = places[judged], at_ns[judged], found[judged] == GOOD
        self.latest.note(self.objective, table, places, at_ns, is_good)
        return places, at_ns, is_good


class ObjectiveIndex:
    """Objectives that may be others later; one of each route counts the requests of all."""

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self.replace(objectives)

    def replace(self, objectives: Sequence[Objective]) -> None:
        """Hold others from now on."""
        self._objectives = [
            replace(one, route=None) if one.route == EACH_ROUTE else one for one in objectives
        ]

    def violated_in(self, table: LedgerTable) -> NDArray[np.bool_]:
        """(r,): whether each request of a table violates one of them."""
        violated = np.zeros(len(table), np.bool_)
        for objective in self._objectives:
            cohort = in_cohort(objective, table)
            if cohort.any():
                violated |= cohort & (verdicts(objective, table) == BAD)
        return violated


NO_OBJECTIVES: Final = ObjectiveIndex(())
