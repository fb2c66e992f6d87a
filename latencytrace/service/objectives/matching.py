"""Finds the objectives that count a request, at once however many there are."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.request_table import RequestTable
from latencytrace.analysis.columns.verdicts import BAD, in_cohort, verdicts
from latencytrace.analysis.slo.verdict import is_good
from latencytrace.model import Objective, Request
from latencytrace.model.objective import EACH_ROUTE


class ObjectiveIndex:
    """Objectives by service and route; one of each route counts the requests of all.

    Args:
        objectives: All of them.
    """

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self.replace(objectives)

    def replace(self, objectives: Sequence[Objective]) -> None:
        """Hold others from now on."""
        self._objectives = [
            replace(one, route=None) if one.route == EACH_ROUTE else one for one in objectives
        ]
        by_route: dict[tuple[str, str | None], list[tuple[int, Objective]]] = {}
        for place, objective in enumerate(self._objectives):
            key = (objective.service, objective.route)
            by_route.setdefault(key, []).append((place, objective))
        self._by_route = by_route

    def of(self, request: Request) -> Iterator[tuple[int, Objective]]:
        """The objectives that count a request, each with its place among all."""
        for route in (request.route, None):
            for place, objective in self._by_route.get((request.service, route), ()):
                if objective.counts(request):
                    yield place, objective

    def are_violated(self, request: Request) -> bool:
        """Return whether a request violates one of them."""
        return any(is_good(objective, request) is False for _, objective in self.of(request))

    def violated_in(self, table: RequestTable) -> NDArray[np.bool_]:
        """(r,): whether each request of a table violates one of them."""
        violated = np.zeros(len(table), np.bool_)
        for objective in self._objectives:
            cohort = in_cohort(objective, table)
            if cohort.any():
                violated |= cohort & (verdicts(objective, table) == BAD)
        return violated


NO_OBJECTIVES: Final = ObjectiveIndex(())
