"""The objectives that are watched, those of each route of a service among them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from latencytrace.analysis.columns.verdicts import in_cohort
from latencytrace.analysis.slo.burn_rate import burn_rules
from latencytrace.model import Acknowledgement, Alert, Objective, Tally
from latencytrace.model.objective import EACH_ROUTE
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.objectives.alerts import acknowledge, kept_objective
from latencytrace.service.objectives.counts import ObjectiveCounts, series_of
from latencytrace.service.objectives.memory import ObjectiveMemory
from latencytrace.service.objectives.state import ObjectiveState, TierState, TierStates

MAX_ROUTES: Final = 50  # of one objective that holds for each route

Unkept = Mapping[tuple[str, int, int], Tally]  # counts that are not on disk yet, by slot
_Watched = tuple[ObjectiveCounts, ObjectiveState]


@dataclass(slots=True)
class _Group:
    """An objective that holds for each route of its service."""

    objective: Objective
    any_route: Objective  # which counts requests of all of them
    routes: set[str | None] = field(default_factory=set)  # that are watched

    @classmethod
    def of(cls, objective: Objective) -> "_Group":
        return cls(objective, replace(objective, route=None))

    def holds_for(self, kept: Objective) -> bool:
        """Tell whether an objective that was kept is this one, of a route."""
        ours, theirs = (
            series_of(replace(one, route=EACH_ROUTE)) for one in (self.objective, kept)
        )
        return kept.route is not None and ours == theirs


class WatchedObjectives:
    """Counts and states by objective; an objective of each route has them for each it has seen.

    Args:
        objectives: As the file has them.
        memory: Where counts and states are kept.
        now_ns: The time: a route that was silent for a period is not restored.

    Attributes:
        of_file: The objectives as the file has them.
    """

    def __init__(
        self, objectives: Sequence[Objective], memory: ObjectiveMemory, now_ns: int
    ) -> None:
        self._memory = memory
        self.left_out = 0  # requests of routes beyond the most
        self.entries: tuple[_Watched, ...] = ()
        self.of_file = tuple(objectives)
        self._groups = _groups(objectives)
        states = memory.states()
        kept = [kept_objective(text) for text in states.values()]
        for objective in self._concrete(objectives, [one for one in kept if one is not None]):
            counts, state = _made(objective)
            state.read(states.get(counts.series, "{}"))
            counts.rings.restore(memory.slots(counts.series), state.closed_ns)
            if objective in objectives or counts.tally(now_ns, objective.period_ns).total:
                self.entries += ((counts, state),)
        self._swap(self.entries)

    def since_start(self) -> list[tuple[Objective, Tally]]:
        """The requests of each objective since this process began, for metrics."""
        return [(counts.objective, counts.rings.since_start) for counts, _ in self.entries]

    def history(self) -> list[tuple[Objective, list[tuple[int, Tally]]]]:
        """The counts of each objective by day since the epoch, as they were kept last."""
        watched = [counts for counts, _ in self.entries]
        return [(counts.objective, self._memory.days(counts.series)) for counts in watched]

    def without_route(self) -> list[Objective]:
        """The objectives of each route that have seen no route yet."""
        return [group.objective for group in self._groups if not group.routes]

    def names(self) -> set[str]:
        """The names of all objectives, also of those of no route yet."""
        return {objective.name for objective in self.of_file}

    def series(self) -> set[str]:
        """The keys of all counts."""
        return {counts.series for counts, _ in self.entries}

    def add_routes(self, table: LedgerTable) -> None:
        """Take up the routes of requests."""
        for group in self._groups:
            is_counted = table.counts & in_cohort(group.any_route, table)
            roots, requests = np.unique(table.root[is_counted], return_counts=True)
            for root, number in zip(roots.tolist(), requests.tolist(), strict=True):
                self._add(group, table.roots[root].route, number)

    def acknowledge(self, alert: Alert, said: Acknowledgement | None) -> Alert | None:
        """Acknowledge an alert, and keep that; None: it fires no more.

        Raises:
            StoreError: The note could not be written.
        """
        series = series_of(alert.standing.objective)
        for counts, state in self.entries:
            noted = acknowledge(state, alert, said) if counts.series == series else None
            if noted is not None:
                self._memory.keep({}, {series: state.text(counts.objective)}, {})
                return noted
        return None

    def replace(self, objectives: Sequence[Objective], unkept: Unkept) -> None:
        """Watch others from now on; what is counted for the same requests goes on.

        Args:
            objectives: As the file has them now.
            unkept: Counts that are not on disk yet.
        """
        before = {counts.series: (counts, state) for counts, state in self.entries}
        self.of_file = tuple(objectives)
        self._groups = _groups(objectives)
        seen = [counts.objective for counts, _ in self.entries]
        entries: list[_Watched] = []
        for objective in self._concrete(objectives, seen):
            counts, state = _made(objective)
            was = before.get(counts.series)
            if was is not None:
                state.read(was[1].text(objective))
            if was is not None and was[0].objective.period_ns == objective.period_ns:
                counts = was[0]
                counts.change(objective)
            else:
                slots = {slot[:2]: slot for slot in self._memory.slots(counts.series)}
                for (series, length_ns, at_ns), tally in unkept.items():
                    if series == counts.series:
                        slots[length_ns, at_ns] = length_ns, at_ns, tally
                counts.rings.restore(slots.values(), state.closed_ns)
            entries.append((counts, state))
        self._swap(tuple(entries))

    def _concrete(
        self, objectives: Sequence[Objective], seen: Sequence[Objective]
    ) -> Iterator[Objective]:
        """The objectives of one route or any, and those of each route that was seen."""
        yield from (one for one in objectives if one.route != EACH_ROUTE)
        for group in self._groups:
            routes = [one.route for one in seen if group.holds_for(one)]
            for route in dict.fromkeys(routes[:MAX_ROUTES]):
                yield replace(group.objective, route=route)

    def _add(self, group: _Group, route: str, requests: int) -> None:
        if route in group.routes:
            return
        if len(group.routes) >= MAX_ROUTES:
            self.left_out += requests
            return
        self._swap((*self.entries, _made(replace(group.objective, route=route))))

    def _swap(self, entries: tuple[_Watched, ...]) -> None:
        self.entries = entries
        objectives = [counts.objective for counts, _ in entries]
        for group in self._groups:
            group.routes = {one.route for one in objectives if group.holds_for(one)}


def _groups(objectives: Sequence[Objective]) -> tuple[_Group, ...]:
    return tuple(_Group.of(one) for one in objectives if one.route == EACH_ROUTE)


def _made(objective: Objective) -> _Watched:
    tiers = {rule: TierState() for rule in burn_rules(objective)}
    return ObjectiveCounts(objective), ObjectiveState(tiers=TierStates(of_rule=tiers))
