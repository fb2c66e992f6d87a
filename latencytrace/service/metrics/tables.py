"""Tables of requests, counted as `CountedRequests.count` counts requests one by one."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns import reported
from latencytrace.analysis.columns.request_table import RequestTable
from latencytrace.model.stage import STAGES
from latencytrace.service.metrics.cohorts import Cohort
from latencytrace.service.metrics.counted_requests import CountedRequests
from latencytrace.service.metrics.histograms import ManyHistogram

_Places = NDArray[np.int64]
_NS_PER_S: Final = 1e9


def count_table(counted: CountedRequests, table: RequestTable) -> None:
    """Count requests that have settled, health routes never."""
    at_s = counted.counted_at_s()
    places = np.flatnonzero(table.counts)
    models = len(table.model.values)
    pairs = table.root[places] * models + table.model.codes[places]
    _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    requests = np.bincount(which).tolist()
    numbers: dict[Cohort, int] = {}
    number_of = np.zeros(len(first), np.int64)
    for at in np.argsort(first).tolist():
        root, model = divmod(int(pairs[first[at]]), models)
        name = table.roots[root]
        cohort = counted.cohorts.named(
            name.service, name.route, table.model.values[model], requests[at]
        )
        number_of[at] = numbers.setdefault(cohort, len(numbers))
    of_cohort = number_of[which]
    for cohort, number in numbers.items():
        _Cohort(counted, table, places[of_cohort == number], cohort, at_s).count()


class _Cohort:
    """The requests of a table in one cohort."""

    def __init__(
        self,
        counted: CountedRequests,
        table: RequestTable,
        places: _Places,
        cohort: Cohort,
        at_s: float,
    ) -> None:
        self._counted = counted
        self._table = table
        self._places = places
        self._cohort = cohort
        self._at_s = at_s
        self._weights = None if table.weight is None else table.weight[places]

    def count(self) -> None:
        """Count them."""
        counted, table, places = self._counted, self._table, self._places
        weights = np.ones(len(places), np.int64) if self._weights is None else self._weights
        counted.count_left_out(self._cohort, int(weights.sum()))
        wanted = set(places.tolist()) if table.repairs else set()
        for place, repairs in table.repairs.items():
            if place in wanted:
                for kind in {repair.kind for repair in repairs}:
                    counted.repaired.labels(kind.value).inc()
        self._observe(counted.request_duration, self._cohort, table.duration_ns)
        by_root = np.bincount(table.root[places], weights)
        for root in np.flatnonzero(by_root).tolist():
            status = table.roots[root].status.value
            counted.requests.labels(*self._cohort, status).inc(int(by_root[root]))
        for number in np.flatnonzero(table.ledger[places].any(axis=0)).tolist():
            labels = (*self._cohort, STAGES[number].value)
            self._observe(counted.stage_duration, labels, table.ledger[:, number], unknown=0)
        self._count_slowest()
        self._observe_known(counted.time_to_first_token, reported.FIRST_TOKEN)
        self._observe_known(counted.time_per_output_token, reported.PER_TOKEN)
        self._add_tokens(reported.INPUT, "input")
        self._add_tokens(reported.OUTPUT, "output")

    def _count_slowest(self) -> None:
        slowest, durations_ns = self._counted.slowest, self._table.duration_ns[self._places]
        is_slow = slowest.among(self._cohort, durations_ns, self._at_s, self._weights)
        # Integers of Python: 64 bits do not hold every sum.
        ledgers = self._table.ledger[self._places[is_slow]].astype(object)
        if self._weights is not None:
            ledgers = ledgers * self._weights[is_slow, None].astype(object)
        stages_ns = ledgers.sum(axis=0).tolist()
        named = {STAGES[place].value: length_ns for place, length_ns in enumerate(stages_ns)}
        found = {stage: length_ns for stage, length_ns in named.items() if length_ns}
        if found:
            slowest.add(self._cohort, found)

    def _observe_known(self, histogram: ManyHistogram, column: int) -> None:
        self._observe(histogram, self._cohort, self._table.known[:, column], reported.UNKNOWN)

    def _observe(
        self,
        histogram: ManyHistogram,
        labels: tuple[str, ...],
        times_ns: NDArray[np.int64],
        unknown: int = reported.UNKNOWN,
    ) -> None:
        is_known = times_ns[self._places] != unknown
        places = self._places[is_known]
        if len(places):
            trace_ids = self._table.trace_ids
            seconds = times_ns[places] / _NS_PER_S
            weights = None if self._weights is None else self._weights[is_known]
            histogram.observe_all(
                labels, seconds, lambda at: trace_ids[places[at]], self._at_s, weights
            )

    def _add_tokens(self, column: int, direction: str) -> None:
        tokens = self._table.known[self._places, column]
        tokens = np.where(tokens == reported.UNKNOWN, 0, tokens)
        if self._weights is not None:  # as integers of Python: 64 bits do not hold every sum
            tokens = tokens.astype(object) * self._weights.astype(object)
        if total := int(tokens.sum()):
            self._counted.tokens.labels(*self._cohort, direction).inc(total)
