"""The agents' own part in durations as a metric, where a control group is traced."""

import threading
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.registry import Collector

from latencytrace.errors import StoreError
from latencytrace.service.answers.findings.overhead_documents import OverheadDocument

KEPT_NS: Final = 60_000_000_000  # an answer, which takes a question to the store
MOST_ROUTES: Final = 100
_BOUNDS: Final = (("estimate", "difference_ns"), ("low", "low_ns"), ("high", "high_ns"))


class ControlGroup(Collector):
    """Asks at most once a minute, and only while an agent reports a control group.

    Args:
        overhead: Of the last hour.
        is_wanted: Whether any agent reports requests of a control group.
        now_ns: A monotonic clock.
    """

    def __init__(
        self,
        overhead: Callable[[], OverheadDocument],
        is_wanted: Callable[[], bool],
        now_ns: Callable[[], int],
    ) -> None:
        self._overhead = overhead
        self._is_wanted = is_wanted
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._asked_ns: int | None = None
        self._found: OverheadDocument | None = None

    def collect(self) -> Iterator[MetricFamily]:
        """Read what is known; of a route with too few requests nothing."""
        family = GaugeMetricFamily(
            "latencytrace_tracing_overhead_seconds",
            "How much longer requests take for being traced in full, against the control group.",
            labels=("service", "route", "bound"),
        )
        found = self._latest() if self._is_wanted() else None
        for route in found["routes"][:MOST_ROUTES] if found else ():
            for bound, name in _BOUNDS:
                value_ns = route[name]  # type: ignore[literal-required] # one of the three
                if value_ns is not None:
                    family.add_metric([route["service"], route["route"], bound], value_ns / 1e9)
        yield family

    def _latest(self) -> OverheadDocument | None:
        with self._lock:
            now_ns = self._now_ns()
            if self._asked_ns is None or now_ns - self._asked_ns >= KEPT_NS:
                self._asked_ns = now_ns
                try:
                    self._found = self._overhead()
                except StoreError:  # its own metrics say so
                    self._found = None
            return self._found
