"""Requests counted for `/metrics`: how many, how long they take, and in which stages."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter

from latencytrace.analysis.columns import reported
from latencytrace.model import Measure, Objective, RequestStatus
from latencytrace.model.stage import STAGES
from latencytrace.service.clock import now_ns
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics.cohorts import (
    MAX_COHORTS,
    MAX_ROUTES,
    OTHER,
    OVERFLOWED,
    Cohort,
    RequestCohorts,
)
from latencytrace.service.metrics.histograms import ManyHistogram
from latencytrace.service.metrics.slowest import SlowestRequests

_NS_PER_S: Final = 1e9

# Round numbers, as objectives name them; dense where serving happens.
DURATION_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75,
    1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
# Fewer, since each stage has a series of each: LATENCYTRACE_STAGE_BUCKETS names others.
STAGE_BUCKETS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
FIRST_TOKEN_BUCKETS = (
    0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
TOKEN_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5,
    1.0,
)  # fmt: skip

REPLACED_EVERY_S = 600.0  # the busiest routes

_COHORT = ("service", "route", "model")
_DIRECTIONS = ("input", "output")
_PREFIX = "latencytrace_service"


class CountedRequests:
    """The metrics of requests, by service, route and model.

    Cohorts are bounded: beyond `max_routes` of a service, requests join the route `other`,
    beyond `max_cohorts` the cohort `overflow`. It counts from 0 after a restart, as
    Prometheus expects of counters; a request is counted once it has settled. The threshold
    of every objective is a boundary of the histogram that measures it, and its route is
    shown whatever its traffic.

    Args:
        objectives: Their thresholds become boundaries.
        max_cohorts: How many combinations of service, route and model there may be.
        max_routes: How many routes of a service there may be.
        stage_buckets: The bounds of the buckets of stages.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        objectives: Sequence[Objective] = (),
        *,
        max_cohorts: int = MAX_COHORTS,
        max_routes: int = MAX_ROUTES,
        stage_buckets: Sequence[float] = STAGE_BUCKETS,
    ) -> None:
        self._registry = registry
        self.cohorts = RequestCohorts(max_cohorts, max_routes)
        self.pin_routes(objectives)
        self._replaced_at_s: float | None = None
        self._stage_buckets = stage_buckets
        self._objectives = objectives
        self._make_histograms()
        self._make_counters()
        self.slowest = SlowestRequests(_COHORT, registry)

    def _make_histograms(self) -> None:
        self.request_duration = self._histogram(
            "latencytrace_request_duration_seconds",
            "From a request's start to its end.",
            _COHORT,
            self._buckets(DURATION_BUCKETS, Measure.DURATION),
        )
        self.request_after_answer = self._histogram(
            "latencytrace_request_after_answer_seconds",
            "From a request's end until the last of its spans has ended, where one went on.",
            _COHORT,
            DURATION_BUCKETS,
        )
        self.stage_duration = self._histogram(
            "latencytrace_stage_duration_seconds",
            "Critical-path time of a request in one stage.",
            (*_COHORT, "stage"),
            self._buckets(self._stage_buckets, Measure.STAGE),
        )
        self.time_to_first_token = self._histogram(
            "latencytrace_time_to_first_token_seconds",
            "From a request's start to its first output token.",
            _COHORT,
            self._buckets(FIRST_TOKEN_BUCKETS, Measure.TIME_TO_FIRST_TOKEN),
        )
        self.time_per_output_token = self._histogram(
            "latencytrace_time_per_output_token_seconds",
            "Mean time between output tokens after the first.",
            _COHORT,
            self._buckets(TOKEN_BUCKETS, Measure.TIME_PER_OUTPUT_TOKEN),
        )

    def _make_counters(self) -> None:
        self.requests = self._counter(
            "latencytrace_requests", "Requests by how they ended.", (*_COHORT, "status")
        )
        self.tokens = self._counter(
            "latencytrace_tokens", "Tokens read and written.", (*_COHORT, "direction")
        )
        self.repaired = self._counter(
            f"{_PREFIX}_repaired_requests",
            "Requests whose trace was mended, by repair.",
            ("kind",),
        )
        self.overflowed = self._counter(
            f"{_PREFIX}_overflowed_requests", "Requests counted in the cohort `overflow`."
        )
        self.of_other_routes = self._counter(
            f"{_PREFIX}_other_route_requests",
            "Requests counted in the route `other`, for theirs is not among the busiest.",
        )

    def count(self, table: LedgerTable) -> None:
        """Count requests that have settled, health routes never."""
        at_s = self.counted_at_s()
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
            cohort = self.cohorts.named(
                name.service, name.route, table.model.values[model], requests[at]
            )
            number_of[at] = numbers.setdefault(cohort, len(numbers))
        of_cohort = number_of[which]
        for cohort, number in numbers.items():
            _OfCohort(self, table, places[of_cohort == number], cohort, at_s).count()

    def pin_routes(self, objectives: Sequence[Objective]) -> None:
        """Show the routes of these objectives whatever their traffic."""
        self.cohorts.pinned = frozenset((one.service, one.route or "") for one in objectives)

    def count_left_out(self, cohort: Cohort, requests: int) -> None:
        """Count requests of cohorts without series of their own."""
        if cohort is OVERFLOWED:
            self.overflowed.inc(requests)
        elif cohort[1] == OTHER:
            self.of_other_routes.inc(requests)

    def counted_at_s(self) -> float:
        """The time of day; asked before cohorts, since the busiest routes may change with it."""
        at_s = now_ns() / 1e9
        if self._replaced_at_s is None:
            self._replaced_at_s = at_s
        elif abs(at_s - self._replaced_at_s) >= REPLACED_EVERY_S:
            self._replaced_at_s = at_s
            for gone in self.cohorts.replace():
                self._forget(gone)
        return at_s

    def _forget(self, cohort: Cohort) -> None:
        """Leave out the series of a cohort."""
        for histogram in (
            self.request_duration,
            self.request_after_answer,
            self.stage_duration,
            self.time_to_first_token,
            self.time_per_output_token,
        ):
            histogram.forget(cohort)
        self.slowest.forget(cohort)
        for counter, values in ((self.requests, RequestStatus), (self.tokens, _DIRECTIONS)):
            for value in values:
                with suppress(KeyError):  # it has no such series
                    counter.remove(*cohort, value)

    def _histogram(
        self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]
    ) -> ManyHistogram:
        return ManyHistogram(name, text, labels, buckets, self._registry)

    def _buckets(self, base: Sequence[float], measure: Measure) -> Sequence[float]:
        """The buckets of a histogram, each threshold of an objective among them."""
        thresholds = {
            objective.limit_ns / 1e9
            for objective in self._objectives
            if objective.measure is measure and objective.limit_ns is not None
        }
        # Its half and its double, too: quantiles are wanted near it.
        return sorted({*base, *(share * bound for bound in thresholds for share in (0.5, 1, 2))})

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(name, text, labels, registry=self._registry)


class _OfCohort:
    """The requests of a table in one cohort."""

    def __init__(
        self,
        counted: CountedRequests,
        table: LedgerTable,
        places: NDArray[np.int64],
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
        counted, table, places = self._counted, self._table, self._places
        weights = np.ones(len(places), np.int64) if self._weights is None else self._weights
        counted.count_left_out(self._cohort, int(weights.sum()))
        wanted = set(places.tolist()) if table.repairs else set()
        for place, repairs in table.repairs.items():
            if place in wanted:
                for kind in {repair.kind for repair in repairs}:
                    counted.repaired.labels(kind.value).inc()
        self._observe(counted.request_duration, self._cohort, table.duration_ns)
        if table.after is not None:
            after_ns = table.after_ns
            self._observe(counted.request_after_answer, self._cohort, after_ns, unknown=0)
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
