"""The cohorts that requests are counted in, bounded."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.registry import Collector

from latencytrace.errors import StoreError
from latencytrace.model import Request
from latencytrace.service.answers.findings.overhead_documents import OverheadDocument

MAX_COHORTS: Final = 200
MAX_ROUTES: Final = 100
MAX_LABEL_CHARACTERS: Final = 200
OVERFLOW: Final = "overflow"
OVERFLOWED: Final = (OVERFLOW, OVERFLOW, OVERFLOW)
OTHER: Final = "other"  # the route of requests outside the busiest routes
BUSIER: Final = 2.0  # times as busy as the least of the busiest, to take its place
_MAX_WAITING: Final = 1000  # routes of a service that are compared with the busiest

Cohort = tuple[str, str, str]


class RequestCohorts:
    """Combinations of service, route and model, the first of them as they came.

    Args:
        most: How many there may be; requests of others belong to `OVERFLOWED`.
        routes: How many routes of a service there may be; those of others join `OTHER`, until
            they are among the busiest. None: any.

    Attributes:
        pinned: Services with a route that always stands for itself.
    """

    def __init__(
        self,
        most: int = MAX_COHORTS,
        routes: int | None = None,
    ) -> None:
        self._most = most
        self._routes = routes
        self.pinned: frozenset[tuple[str, str]] = frozenset()
        self._known: set[Cohort] = set()
        self._of_service: dict[str, _Routes] = {}

    def of(self, request: Request) -> Cohort:
        """Service, route and model; each bounded, and empty where unknown."""
        return self.named(request.service, request.route, request.model)

    def named(self, service: str, route: str, model: str | None, requests: int = 1) -> Cohort:
        service, route = _label(service), _label(route)
        if self._routes is not None and (service, route) not in self.pinned:
            route = self._shown(service, route, requests)
        cohort = (service, route, _label(model))
        if cohort in self._known:
            return cohort
        if len(self._known) >= self._most:
            return OVERFLOWED
        self._known.add(cohort)
        return cohort

    def replace(self) -> set[Cohort]:
        """Let routes that were busier since the last time take the place of the least busy.

        Returns:
            The cohorts of routes that no longer have series of their own.
        """
        gone = {
            (service, route)
            for service, routes in self._of_service.items()
            for route in routes.replaced()
        }
        left_out = {one for one in self._known if one[:2] in gone}
        self._known -= left_out
        return left_out

    def _shown(self, service: str, route: str, requests: int) -> str:
        """A route, or `OTHER`; a service beyond the most overflows whatever its route is."""
        routes = self._of_service.get(service)
        if routes is None:
            if len(self._of_service) >= self._most:
                return OTHER
            routes = self._of_service[service] = _Routes(self._routes or 0)
        return route if routes.count(route, requests) else OTHER


@dataclass(slots=True)
class _Routes:
    """The routes of a service, with their requests since the last comparison."""

    most: int
    busiest: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)

    def count(self, route: str, requests: int) -> bool:
        """Count requests; return whether the route stands for itself."""
        if route in self.busiest or len(self.busiest) < self.most:
            self.busiest[route] += requests
            return True
        if route in self.waiting or len(self.waiting) < _MAX_WAITING:
            self.waiting[route] += requests
        return False

    def replaced(self) -> list[str]:
        """Replace the least busy by busier ones, and begin to count anew."""
        gone = []
        least_first = sorted(self.busiest, key=lambda route: self.busiest[route])
        busiest_first = self.waiting.most_common(len(least_first))
        for out, (route, requests) in zip(least_first, busiest_first, strict=False):
            if requests <= BUSIER * self.busiest[out]:
                break
            del self.busiest[out]
            self.busiest[route] = 0
            gone.append(out)
        self.busiest = Counter(dict.fromkeys(self.busiest, 0))
        self.waiting.clear()
        return gone


def _label(text: str | None) -> str:
    return (text or "")[:MAX_LABEL_CHARACTERS]


KEPT_NS: Final = 60_000_000_000  # an answer, which takes a question to the store
MOST_ROUTES: Final = 100
_BOUNDS: Final = (("estimate", "difference_ns"), ("low", "low_ns"), ("high", "high_ns"))


class ControlGroup(Collector):
    """Asks at most once a minute, and only while an agent reports a control group.

    Args:
        overhead: Overhead of the last hour.
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
