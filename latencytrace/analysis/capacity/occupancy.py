"""How many requests are under way at once: when one comes, when one leaves, and for how long.

Source: Denning and Buzen, "The Operational Analysis of Queueing Network Models", ACM Computing
Surveys 1978: all of it is counted, no distribution is assumed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.cohorts.request_times import RequestTimes, Times

BLOCKS = 48  # stretches of time whose requests may resemble each other
MOST_TRIMMED = 0.1  # of the time, at either end
LONG = 0.99  # quantile of the durations
MOST_AT_ONCE = 10_000  # more are counted as that many

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """A cohort over time; `b` stretches as long as each other, up to `n` requests at once."""

    edges_ns: Times  # (b + 1,)
    time_ns: Floats  # (b, n + 1): with so many under way
    served: Floats  # (b, n + 1): answers that ended while so many were under way
    starts_ns: Times  # of all requests, in order; likewise the next
    ends_ns: Times

    @classmethod
    def of(cls, times: RequestTimes) -> "Occupancy":
        """Count at least one request.

        Both ends are left out for as long as most requests take: of those under way then some
        began before the cohort did, or have not ended yet.
        """
        starts_ns, length_ns = times.start_ns, int(times.start_ns[-1] - times.start_ns[0])
        ends_ns = starts_ns + times.duration_ns
        trimmed = int(min(np.quantile(times.duration_ns, LONG), MOST_TRIMMED * length_ns))
        first_ns, last_ns = int(starts_ns[0]) + trimmed, int(starts_ns[-1]) - trimmed
        counted_ns = max(last_ns - first_ns, 1)
        edges = [first_ns + at * counted_ns // BLOCKS for at in range(BLOCKS + 1)]
        edges_ns = np.array(edges, np.int64)
        in_order = np.sort(ends_ns)
        time_ns = _time_ns(starts_ns, in_order, edges_ns)
        leaving = ends_ns[times.served & (ends_ns >= edges_ns[0]) & (ends_ns < edges_ns[-1])]
        under_way = np.minimum(_leaving(starts_ns, in_order, leaving), time_ns.shape[1] - 1)
        place = _block(edges_ns, leaving) * time_ns.shape[1] + under_way
        served = np.bincount(place, minlength=time_ns.size).reshape(time_ns.shape)
        return cls(
            edges_ns=edges_ns,
            time_ns=time_ns,
            served=served.astype(np.float64),
            starts_ns=starts_ns,
            ends_ns=in_order,
        )

    @property
    def length_ns(self) -> int:
        """How long was counted."""
        return int(self.edges_ns[-1] - self.edges_ns[0])

    def block(self, at_ns: Times) -> NDArray[np.int64]:
        """The stretch of each moment; below 0 or `BLOCKS`: none."""
        return _block(self.edges_ns, at_ns)

    def coming(self, at_ns: Times) -> NDArray[np.int64]:
        """How many are under way when one starts, itself included."""
        started = np.searchsorted(self.starts_ns, at_ns, side="left")
        ended = np.searchsorted(self.ends_ns, at_ns, side="right")
        found: NDArray[np.int64] = np.maximum(started - ended, 0) + 1
        return found

    def leaving(self, at_ns: Times) -> NDArray[np.int64]:
        """How many are under way when one ends, itself included."""
        return _leaving(self.starts_ns, self.ends_ns, at_ns)


def _block(edges_ns: Times, at_ns: Times) -> NDArray[np.int64]:
    place: NDArray[np.int64] = np.searchsorted(edges_ns, at_ns, side="right")
    return place - 1


def _leaving(starts_ns: Times, ends_ns: Times, at_ns: Times) -> NDArray[np.int64]:
    started = np.searchsorted(starts_ns, at_ns, side="left")
    ended = np.searchsorted(ends_ns, at_ns, side="left")
    found: NDArray[np.int64] = np.maximum(started - ended, 1)
    return found


def _time_ns(starts_ns: Times, ends_ns: Times, edges_ns: Times) -> Floats:
    """How long so many were under way, in each stretch."""
    at_ns = np.concatenate([ends_ns, starts_ns, edges_ns])
    change = np.repeat([-1, 1, 0], [len(ends_ns), len(starts_ns), len(edges_ns)])
    order = np.argsort(at_ns, kind="stable")  # who ends then leaves before the next one comes
    at_ns = at_ns[order]
    under_way = np.clip(np.cumsum(change[order])[:-1], 0, MOST_AT_ONCE)
    block = _block(edges_ns, at_ns[:-1])
    counted = (block >= 0) & (block < len(edges_ns) - 1)
    most = int(under_way.max(initial=1)) + 1
    place = block[counted] * most + under_way[counted]
    lengths_ns = np.diff(at_ns)[counted].astype(np.float64)
    blocks = len(edges_ns) - 1
    summed = np.bincount(place, lengths_ns, minlength=blocks * most)
    return summed.reshape(blocks, most).astype(np.float64)
