"""The slowest hundredth of requests, and the stages that their time is spent in.

Quantiles of stages are of different requests and do not add up. What the slowest requests spent in
each stage does: to their mean duration. Which they are is known when they are counted: those as
long as at most a hundredth of the requests of the five to ten minutes before, to an eighth of a
duration. Where all take as long, none of them is slow.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

SHARE: Final = 0.01
LEAST: Final = 100  # requests, with fewer nothing is known of their slowest hundredth
EPOCH_S: Final = 300.0
_STEPS: Final = 8  # lengths that are distinguished between one and its double
_LENGTHS: Final = 65 * _STEPS  # of 64 bits
_SURE: Final = 1.05  # times as many requests, and it is looked anew

Labels = tuple[str, ...]


@dataclass(slots=True)
class _Cohort:
    """The durations of late, and what was counted of the slowest."""

    now: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_LENGTHS, np.int64))
    before: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_LENGTHS, np.int64))
    epoch: int = 0
    seen: int = 0
    looked: float = 0.0  # how many were seen when it was looked last
    least: int = _LENGTHS  # the number of a duration from which on it is slow
    rows: int = 0  # that were added to `now`
    requests: int = 0
    stages_ns: dict[str, int] = field(default_factory=dict)

    def turn(self, epoch: int) -> None:
        """Let go of what is too old."""
        if epoch != self.epoch:
            follows = epoch == self.epoch + 1
            self.before = self.now if follows else np.zeros(_LENGTHS, np.int64)
            self.now = np.zeros(_LENGTHS, np.int64)
            self.epoch, self.seen, self.looked = epoch, self.rows if follows else 0, 0.0
            self.rows = 0

    def look(self) -> None:
        """Find which durations are slow, where many are new."""
        if self.seen < LEAST or self.seen < self.looked * _SURE:
            return
        self.looked = self.seen
        slower = np.cumsum((self.now + self.before)[::-1])[::-1]
        self.least = int(np.count_nonzero(slower > SHARE * slower[0]))


class SlowestRequests(Collector):
    """Counters of the slowest requests, by service, route and model."""

    def __init__(self, labels: Labels, registry: CollectorRegistry) -> None:
        self._labels = labels
        self._cohorts: dict[Labels, _Cohort] = {}
        self._lock = threading.Lock()
        registry.register(self)

    def among(
        self,
        cohort: Labels,
        durations_ns: NDArray[np.int64],
        at_s: float,
        weights: NDArray[np.int64] | None = None,
    ) -> NDArray[np.bool_]:
        """(r,): whether each request is one of the slowest; all of them are usual from now on.

        Args:
            durations_ns: (r,): how long they took.
            at_s: The time of day.
            weights: (r,): how many each stands for; None: itself.
        """
        each = np.ones(len(durations_ns), np.int64) if weights is None else weights
        shares, powers = np.frexp(np.maximum(durations_ns, 1))
        numbers = ((shares - 0.5) * 2 * _STEPS).astype(np.int64) + powers * _STEPS
        with self._lock:
            known = self._cohorts.setdefault(cohort, _Cohort())
            known.turn(int(at_s // EPOCH_S))
            known.look()
            known.now += np.bincount(numbers, each, _LENGTHS).astype(np.int64)
            known.seen += len(numbers)
            known.rows += len(numbers)
            slow: NDArray[np.bool_] = numbers >= known.least
            known.requests += int(each[slow].sum())
        return slow

    def add(self, cohort: Labels, stages_ns: Mapping[str, int]) -> None:
        with self._lock:
            known = self._cohorts[cohort].stages_ns
            for stage, length_ns in stages_ns.items():
                known[stage] = known.get(stage, 0) + length_ns

    def forget(self, cohort: Labels) -> None:
        """Leave out the series of a cohort."""
        with self._lock:
            self._cohorts.pop(cohort, None)

    def describe(self) -> Iterator[Metric]:
        """Name them, without a series."""
        return iter(self._families())

    def collect(self) -> Iterator[Metric]:
        """Read them; a cohort has series once one of its requests was slow."""
        requests, stages = self._families()
        with self._lock:
            for labels, known in self._cohorts.items():
                if known.requests:
                    requests.add_metric(labels, known.requests)
                for stage, length_ns in known.stages_ns.items():
                    stages.add_metric((*labels, stage), length_ns / 1e9)
        yield requests
        yield stages

    def _families(self) -> tuple[CounterMetricFamily, CounterMetricFamily]:
        requests = CounterMetricFamily(
            "latencytrace_slowest_requests",
            "Requests as slow as the slowest hundredth of the minutes before.",
            labels=self._labels,
        )
        stages = CounterMetricFamily(
            "latencytrace_slowest_stage_seconds",
            "Critical-path time of those in each stage.",
            labels=(*self._labels, "stage"),
        )
        return requests, stages
