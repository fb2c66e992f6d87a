"""Requests counted for metrics one by one: the plain form of what `CountedRequests` does."""

from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from latencytrace.model import Request, Stage
from latencytrace.service.metrics.cohorts import Cohort
from latencytrace.service.metrics.counted_requests import CountedRequests
from latencytrace.service.metrics.histograms import ManyHistogram

_LONGEST_NS: Final = (1 << 63) - 1  # what an array of times holds


def count_one_by_one(counted: CountedRequests, requests: Iterable[Request]) -> None:
    """Count requests that have settled, health routes never."""
    at_s = counted.counted_at_s()
    by_cohort: dict[Cohort, list[Request]] = {}
    for request in requests:
        if request.counts:
            by_cohort.setdefault(counted.cohorts.of(request), []).append(request)
    for cohort, some in by_cohort.items():
        counted.count_left_out(cohort, sum(one.weight for one in some))
        _count(counted, some, cohort, at_s)


def _count(
    counted: CountedRequests, requests: Sequence[Request], cohort: tuple[str, ...], at_s: float
) -> None:
    for kind in (kind for one in requests for kind in {each.kind for each in one.repairs}):
        counted.repaired.labels(kind.value).inc()
    durations = ((one.duration_ns, one) for one in requests)
    _observe(counted.request_duration, cohort, durations, at_s)
    _observe_after(counted, requests, cohort, at_s)
    by_status: Tally[str] = Tally()
    for one in requests:
        by_status[one.status.value] += one.weight
    for status, count in by_status.items():
        counted.requests.labels(*cohort, status).inc(count)
    by_stage: dict[Stage, list[tuple[int | None, Request]]] = {}
    for one in requests:
        for stage, stage_ns in one.ledger.items():
            if stage_ns:
                by_stage.setdefault(stage, []).append((stage_ns, one))
    for stage, stage_times in by_stage.items():
        _observe(counted.stage_duration, (*cohort, stage.value), stage_times, at_s)
    _count_slowest(counted, requests, cohort, at_s)
    _count_tokens(counted, requests, cohort, at_s)


def _observe_after(
    counted: CountedRequests, requests: Sequence[Request], cohort: tuple[str, ...], at_s: float
) -> None:
    after = [(one.after_ns, one) for one in requests if one.after]
    if after:
        _observe(counted.request_after_answer, cohort, after, at_s)


def _count_slowest(
    counted: CountedRequests, requests: Sequence[Request], cohort: tuple[str, ...], at_s: float
) -> None:
    # An odd time, such as 2**64 - 1, is more than an array holds.
    durations_ns = np.array([min(one.duration_ns, _LONGEST_NS) for one in requests], np.int64)
    weights = np.array([one.weight for one in requests], np.int64)
    stages_ns: Tally[str] = Tally()
    slow = counted.slowest.among(cohort, durations_ns, at_s, weights)
    for number in np.flatnonzero(slow).tolist():
        one = requests[number]
        for stage, stage_ns in one.ledger.items():
            if stage_ns:
                stages_ns[stage.value] += stage_ns * one.weight
    if stages_ns:
        counted.slowest.add(cohort, stages_ns)


def _count_tokens(
    counted: CountedRequests, requests: Sequence[Request], cohort: tuple[str, ...], at_s: float
) -> None:
    first = ((one.time_to_first_token_ns, one) for one in requests)
    _observe(counted.time_to_first_token, cohort, first, at_s)
    token = ((one.time_per_output_token_ns, one) for one in requests)
    _observe(counted.time_per_output_token, cohort, token, at_s)
    if tokens := sum((one.input_tokens or 0) * one.weight for one in requests):
        counted.tokens.labels(*cohort, "input").inc(tokens)
    if tokens := sum((one.output_tokens or 0) * one.weight for one in requests):
        counted.tokens.labels(*cohort, "output").inc(tokens)


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
