"""Histograms for many observations: 0.6 µs each, where the client's own take 4.

A series is found once a batch, not once an observation, and one lock is taken for all.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from prometheus_client.core import Exemplar, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Observation = tuple[float, str]  # seconds, and the trace that shows it


@dataclass(slots=True)
class _Series:
    counts: list[int]  # by bucket, those beyond the last bound in the last one
    exemplars: list[tuple[float, str, float] | None]  # the latest of each bucket, and when
    total: float = 0.0


class ManyHistogram(Collector):
    """A histogram with labels, in seconds; an exemplar a bucket names a trace.

    Args:
        name: With its unit.
        text: What it tells.
        labels: Their names.
        bounds: The upper bounds of its buckets, each included, in order.
        registry: Where it is read.
    """

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        bounds: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._bounds = list(bounds)
        self._names = [*map(floatToGoString, self._bounds), "+Inf"]
        self._series: dict[tuple[str, ...], _Series] = {}
        self._lock = threading.Lock()
        registry.register(self)

    def observe(
        self, labels: tuple[str, ...], observations: Iterable[Observation], at_s: float
    ) -> None:
        """Count observations of one series.

        Args:
            labels: Their values.
            observations: Any.
            at_s: The time of day.
        """
        bounds = self._bounds
        with self._lock:
            series = self._of(labels)
            counts, exemplars = series.counts, series.exemplars
            for seconds, trace_id in observations:
                bucket = bisect_left(bounds, seconds)
                counts[bucket] += 1
                series.total += seconds
                exemplars[bucket] = (seconds, trace_id, at_s)

    def observe_all(
        self,
        labels: tuple[str, ...],
        seconds: NDArray[np.float64],
        trace_id_of: Callable[[int], str],
        at_s: float,
    ) -> None:
        """Count observations of one series, as `observe` does one by one.

        Args:
            labels: Their values.
            seconds: Any but none.
            trace_id_of: By place, the trace that shows it.
            at_s: The time of day.
        """
        buckets = np.searchsorted(self._bounds, seconds, side="left")
        with self._lock:
            series = self._of(labels)
            for bucket, count in enumerate(np.bincount(buckets).tolist()):
                series.counts[bucket] += count
            # Added up one after the other, so that it does not matter how they come.
            series.total = float(np.cumsum(np.concatenate(([series.total], seconds)))[-1])
            last = np.full(len(series.counts), -1)
            last[buckets] = np.arange(len(buckets))
            for bucket in np.flatnonzero(last >= 0).tolist():
                place = int(last[bucket])
                series.exemplars[bucket] = (float(seconds[place]), trace_id_of(place), at_s)

    def _of(self, labels: tuple[str, ...]) -> _Series:
        """A series, made where there is none; the lock is held."""
        series = self._series.get(labels)
        if series is None:
            none = len(self._bounds) + 1
            series = self._series[labels] = _Series([0] * none, [None] * none)
        return series

    def describe(self) -> Iterator[Metric]:
        """Name it, without a series."""
        yield self._family()

    def collect(self) -> Iterator[Metric]:
        """Read all series."""
        family = self._family()
        with self._lock:
            for labels, series in self._series.items():
                family.add_metric(labels, list(self._buckets(series)), series.total)
        yield family

    def _family(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self._name, self._text, labels=self._labels)

    def _buckets(
        self, series: _Series
    ) -> Iterator[tuple[str, float] | tuple[str, float, Exemplar]]:
        until = 0
        for name, count, seen in zip(self._names, series.counts, series.exemplars, strict=True):
            until += count
            if seen is None:
                yield name, float(until)
            else:
                seconds, trace_id, at_s = seen
                yield name, float(until), Exemplar({"trace_id": trace_id}, seconds, at_s)
