"""Requests that violate an objective."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.verdicts import BAD, in_cohort, verdicts
from latencytrace.model import Objective
from latencytrace.model.objective import EACH_ROUTE
from latencytrace.service.ledger_table import LedgerTable


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
