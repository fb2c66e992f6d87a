"""Which requests and shared steps keep their spans: failed, slow, and a share of the others."""

from bisect import bisect_left, insort
from collections import deque

import numpy as np
from numpy.typing import NDArray

from latencytrace.model import RequestStatus, Span, StatusCode
from latencytrace.service.ledger_table import LedgerTable

SLOW_QUANTILE = 0.95
MEMORY = 200  # the latest requests of a route that tell what is slow there
MAX_ROUTES = 200  # beyond, routes share one memory

_IDS = 1 << 32


class SpanKeeping:
    """Decides by what was seen lately, and by the trace id, never by chance.

    A decision by the id is the same in every service that sees the trace.

    Args:
        ratio: The share of ordinary requests that keep their spans.
    """

    def __init__(self, ratio: float) -> None:
        self._below = round(ratio * _IDS)
        self._routes: dict[tuple[str, str] | None, _Latest] = {}

    def keeps_of(self, table: LedgerTable) -> NDArray[np.bool_]:
        """(r,): whether the spans of each request are kept; takes note of its duration."""
        keeps = np.ones(len(table), np.bool_)
        if self._below >= _IDS:  # all of them, whatever was seen lately
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
        """Whether a shared step is kept, with all spans of its trace; takes note likewise."""
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
    """The latest durations of a route, in order of time and of length."""

    def __init__(self) -> None:
        self._in_time: deque[int] = deque()
        self._by_length: list[int] = []

    def is_slow(self, duration_ns: int) -> bool:
        """Whether it is longer than most; the first one of a route is."""
        below = bisect_left(self._by_length, duration_ns)
        return below >= SLOW_QUANTILE * len(self._by_length)

    def add(self, duration_ns: int) -> None:
        self._in_time.append(duration_ns)
        insort(self._by_length, duration_ns)
        if len(self._in_time) > MEMORY:
            del self._by_length[bisect_left(self._by_length, self._in_time.popleft())]
