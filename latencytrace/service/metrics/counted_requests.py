"""Requests counted for `/metrics`: how many, how long they take, and in which stages."""

from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
from prometheus_client import CollectorRegistry, Counter

from latencytrace.model import Measure, Objective, Request, RequestStatus, Stage
from latencytrace.service.clock import now_ns
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

_LONGEST_NS: Final = (1 << 63) - 1  # what an array of times holds

# Round numbers, for those are what objectives name; dense where serving happens.
DURATION_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75,
    1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
# Fewer, for there are as many series of them as stages: LATENCYTRACE_STAGE_BUCKETS names others.
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
        registry: Where they are read.
        objectives: Whose thresholds are boundaries.
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

    def count(self, requests: Iterable[Request]) -> None:
        """Count requests that have settled, health routes never."""
        at_s = self.counted_at_s()
        by_cohort: dict[Cohort, list[Request]] = {}
        for request in requests:
            if request.counts:
                by_cohort.setdefault(self.cohorts.of(request), []).append(request)
        for cohort, counted in by_cohort.items():
            self.count_left_out(cohort, sum(one.weight for one in counted))
            self._count(counted, cohort, at_s)

    def pin_routes(self, objectives: Sequence[Objective]) -> None:
        """Show the routes of these objectives whatever their traffic."""
        self.cohorts.pinned = frozenset((one.service, one.route or "") for one in objectives)

    def count_left_out(self, cohort: Cohort, requests: int) -> None:
        """Count requests whose cohort is not their own."""
        if cohort is OVERFLOWED:
            self.overflowed.inc(requests)
        elif cohort[1] == OTHER:
            self.of_other_routes.inc(requests)

    def counted_at_s(self) -> float:
        """The time of day; asked before cohorts, for the busiest routes may be others then."""
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

    def _count(self, requests: Sequence[Request], cohort: tuple[str, ...], at_s: float) -> None:
        for kind in (kind for one in requests for kind in {each.kind for each in one.repairs}):
            self.repaired.labels(kind.value).inc()
        durations = ((one.duration_ns, one) for one in requests)
        _observe(self.request_duration, cohort, durations, at_s)
        by_status: Tally[str] = Tally()
        for one in requests:
            by_status[one.status.value] += one.weight
        for status, count in by_status.items():
            self.requests.labels(*cohort, status).inc(count)
        by_stage: dict[Stage, list[tuple[int | None, Request]]] = {}
        for one in requests:
            for stage, stage_ns in one.ledger.items():
                if stage_ns:
                    by_stage.setdefault(stage, []).append((stage_ns, one))
        for stage, stage_times in by_stage.items():
            _observe(self.stage_duration, (*cohort, stage.value), stage_times, at_s)
        self._count_slowest(requests, cohort, at_s)
        self._count_tokens(requests, cohort, at_s)

    def _count_slowest(
        self, requests: Sequence[Request], cohort: tuple[str, ...], at_s: float
    ) -> None:
        # An odd time, such as 2**64 - 1, is more than an array holds.
        durations_ns = np.array([min(one.duration_ns, _LONGEST_NS) for one in requests], np.int64)
        weights = np.array([one.weight for one in requests], np.int64)
        stages_ns: Tally[str] = Tally()
        slow = self.slowest.among(cohort, durations_ns, at_s, weights)
        for number in np.flatnonzero(slow).tolist():
            one = requests[number]
            for stage, stage_ns in one.ledger.items():
                if stage_ns:
                    stages_ns[stage.value] += stage_ns * one.weight
        if stages_ns:
            self.slowest.add(cohort, stages_ns)

    def _count_tokens(
        self, requests: Sequence[Request], cohort: tuple[str, ...], at_s: float
    ) -> None:
        first = ((one.time_to_first_token_ns, one) for one in requests)
        _observe(self.time_to_first_token, cohort, first, at_s)
        token = ((one.time_per_output_token_ns, one) for one in requests)
        _observe(self.time_per_output_token, cohort, token, at_s)
        if tokens := sum((one.input_tokens or 0) * one.weight for one in requests):
            self.tokens.labels(*cohort, "input").inc(tokens)
        if tokens := sum((one.output_tokens or 0) * one.weight for one in requests):
            self.tokens.labels(*cohort, "output").inc(tokens)

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


def _observe(
    histogram: ManyHistogram,
    labels: tuple[str, ...],
    found: Iterable[tuple[int | None, Request]],
    at_s: float,
) -> None:
    """Count a time of each request that has it."""
    known = [(took_ns / 1e9, one) for took_ns, one in found if took_ns is not None]
    if known:
        weights = [one.weight for _, one in known]
        observations = [(seconds, one.trace_id) for seconds, one in known]
        histogram.observe(labels, observations, at_s, None if set(weights) == {1} else weights)
