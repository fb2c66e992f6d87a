"""Objectives kept or violated by the requests of a table, all at once.

`Objective.counts` and `analysis.slo.verdict.is_good`, request by request, are the oracles.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns import reported
from latencytrace.analysis.columns.request_table import RequestTable
from latencytrace.model import Measure, Objective, RequestStatus
from latencytrace.model.stage import STAGES

NOT_JUDGED, BAD, GOOD = -1, 0, 1
_KNOWN: Final = {
    Measure.TIME_TO_FIRST_TOKEN: reported.FIRST_TOKEN,
    Measure.TIME_PER_OUTPUT_TOKEN: reported.PER_TOKEN,
}
_OF_ALL: Final = (Measure.DURATION, Measure.UNTIL_IDLE)  # every request has them


def in_cohort(objective: Objective, table: RequestTable) -> NDArray[np.bool_]:
    """(r,): whether each request belongs to an objective's cohort."""
    roots = [
        root.service == objective.service
        and objective.route in {None, root.route}
        and objective.version in {None, root.version}
        for root in table.roots
    ]
    models = [objective.model in {None, model} for model in table.model.values]
    found: NDArray[np.bool_] = np.array(roots, np.bool_)[table.root]
    return found & np.array(models, np.bool_)[table.model.codes]


def verdicts(objective: Objective, table: RequestTable) -> NDArray[np.int64]:
    """(r,): whether each request, of the cohort or not, is good, bad or not to be judged."""
    times_ns, within_ns = _measured_ns(objective, table), objective.threshold_ns
    is_known = times_ns != reported.UNKNOWN
    cancelled, failed = (
        np.array([root.status in statuses for root in table.roots], np.bool_)[table.root]
        for statuses in (_CANCELLED, _FAILED)
    )
    found = np.where(is_known, np.where(times_ns <= within_ns, GOOD, BAD), NOT_JUDGED)
    of_stage = objective.measure is Measure.STAGE
    found[failed] = np.where(is_known, BAD, NOT_JUDGED)[failed] if of_stage else BAD
    if of_stage:  # one that was cancelled may have cut it short
        found[cancelled & (found == GOOD)] = NOT_JUDGED
    elif objective.measure is not Measure.TIME_PER_OUTPUT_TOKEN:
        waited, waited_ns = cancelled & ~is_known, table.duration_ns
        if objective.measure in _OF_ALL:
            waited, waited_ns = cancelled, times_ns
        found[waited] = np.where(waited_ns <= within_ns, NOT_JUDGED, BAD)[waited]
    return found


def _measured_ns(objective: Objective, table: RequestTable) -> NDArray[np.int64]:
    """(r,): how long what is measured took, if there was anything of it."""
    if objective.measure is Measure.DURATION:
        return table.duration_ns
    if objective.measure is Measure.UNTIL_IDLE:
        return table.duration_ns + table.after_ns
    if objective.measure in _KNOWN:
        return table.known[:, _KNOWN[objective.measure]]
    if objective.stage is None:
        return np.full(len(table), reported.UNKNOWN)
    times_ns = table.ledger[:, STAGES.index(objective.stage)]
    return np.where(times_ns == 0, reported.UNKNOWN, times_ns)


_CANCELLED: Final = {RequestStatus.CANCELLED}
_FAILED: Final = {RequestStatus.ERROR, RequestStatus.TIMEOUT, RequestStatus.REJECTED}
