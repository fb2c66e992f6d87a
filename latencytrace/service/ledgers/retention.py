"""Decides which requests keep their spans: failed, slow, and a share of the others."""

from bisect import bisect_left, insort
from collections import deque

import numpy as np
from numpy.typing import NDArray

from latencytrace.model import RequestStatus, Span, StatusCode
from latencytrace.service.ledger_table import LedgerTable

SLOW_QUANTILE = 0.95
MEMORY = 200  # latest requests of a route that decide what is slow
MAX_ROUTES = 200  # beyond, routes share one memory

_IDS = 1 << 32


class SpanKeeping:
    """Decides by the latest durations of the route, and by the trace id.

    The decision by the id is the same in every service that sees the trace.

    Args:
        ratio: The share of ordinary requests that keep their spans.
    """

    def __init__(self, ratio: float) -> None:
        self._below = round(ratio * _IDS)
        self._routes: dict[tuple[str, str] | None, _Latest] = {}

    def keeps_of(self, table: LedgerTable) -> NDArray[np.bool_]:
        """Return whether the spans of each request are kept (r,), and remember its duration."""
        keeps = np.ones(len(table), np.bool_)
        if self._below >= _IDS:  # all are kept
            return keeps
        roots = [
            ((root.service, root.route), root.status is not RequestStatus.OK)
            for root in table.roots
        ]
        reported = zip(
            table.root.tolist(), table.trace_ids, table.duration_ns.tolist(), strict=True
        )
        for place, (root, trace_id, duration_ns) in enumerate(reported):
            key, failed = roots[root]
            keeps[place] = self._keeps(key, trace_id, duration_ns, failed=failed)
        return keeps

    def keeps_step(self, step: Span) -> bool:
        """Return whether the trace of a shared step keeps its spans; remember its duration."""
        failed = step.status is StatusCode.ERROR
        key = (step.service, f"step {step.name}")
        return self._keeps(key, step.trace_id, step.end_ns - step.start_ns, failed=failed)

    def _keeps(
        self, key: tuple[str, str], trace_id: str, duration_ns: int, *, failed: bool
    ) -> bool:
        if key not in self._routes and len(self._routes) >= MAX_ROUTES:
            latest = self._routes.setdefault(None, _Latest())
        else:
            latest = self._routes.setdefault(key, _Latest())
        slow = latest.is_slow(duration_ns)
        latest.add(duration_ns)
        ordinary = int(trace_id[-8:], 16) < self._below
        return ordinary or slow or failed


class _Latest:
    """The latest durations of a route, by time and by length."""

    def __init__(self) -> None:
        self._in_time: deque[int] = deque()
        self._by_length: list[int] = []

    def is_slow(self, duration_ns: int) -> bool:
        """Return whether a duration is in the slowest twentieth; the first of a route is."""
        below = bisect_left(self._by_length, duration_ns)
        return below >= SLOW_QUANTILE * len(self._by_length)

    def add(self, duration_ns: int) -> None:
        self._in_time.append(duration_ns)
        insort(self._by_length, duration_ns)
        if len(self._in_time) > MEMORY:
            del self._by_length[bisect_left(self._by_length, self._in_time.popleft())]
