"""How many requests are under way at once: when one comes, when one leaves, and for how long.

Source: Denning and Buzen, "The Operational Analysis of Queueing Network Models", ACM Computing
Surveys 1978: all of it is counted, no distribution is assumed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis import weighted
from latencytrace.model.cohorts.request_columns import RequestTimes, Times

BLOCKS = 48  # stretches of time whose requests may resemble each other
MOST_TRIMMED = 0.1  # of the time, at either end
LONG = 0.99  # quantile of the durations
MOST_AT_ONCE = 10_000  # more are counted as that many

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Moments in order, each of as many requests as its weight says."""

    at_ns: Times
    summed: NDArray[np.int64] | None  # (n + 1,): of the weights; None: each is of one

    @classmethod
    def of(cls, at_ns: Times, weight: Times | None) -> "Moments":
        """Put moments in order."""
        if weight is None:
            return cls(at_ns=np.sort(at_ns), summed=None)
        order = np.argsort(at_ns, kind="stable")
        return cls(at_ns=at_ns[order], summed=np.append(0, np.cumsum(weight[order])))

    def before(self, at_ns: Times) -> NDArray[np.int64]:
        """How many requests have theirs before others."""
        return self._requests(np.searchsorted(self.at_ns, at_ns, side="left"))

    def until(self, at_ns: Times) -> NDArray[np.int64]:
        """How many have theirs before others or with them."""
        return self._requests(np.searchsorted(self.at_ns, at_ns, side="right"))

    def requests(self) -> NDArray[np.int64]:
        """How many requests each is of."""
        return np.ones(len(self.at_ns), np.int64) if self.summed is None else np.diff(self.summed)

    def _requests(self, moments: NDArray[np.int64]) -> NDArray[np.int64]:
        return moments if self.summed is None else self.summed[moments]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """A cohort over time; `b` stretches as long as each other, up to `n` requests at once."""

    edges_ns: Times  # (b + 1,)
    time_ns: Floats  # (b, n + 1): with so many under way
    served: Floats  # (b, n + 1): answers that ended while so many were under way
    starts: Moments  # of all requests
    ends: Moments
    mean_weight: float  # requests that each of them was recorded for; 1 without weights

    @classmethod
    def of(cls, times: RequestTimes) -> "Occupancy":
        """Count at least one request.

        Both ends are left out for as long as most requests take: of those under way then some
        began before the cohort did, or have not ended yet.
        """
        starts_ns, length_ns = times.start_ns, int(times.start_ns[-1] - times.start_ns[0])
        ends_ns, weight = starts_ns + times.duration_ns, times.weight
        long_ns = float(weighted.quantiles(times.duration_ns, LONG, weight))
        trimmed = int(min(long_ns, MOST_TRIMMED * length_ns))
        first_ns, last_ns = int(starts_ns[0]) + trimmed, int(starts_ns[-1]) - trimmed
        counted_ns = max(last_ns - first_ns, 1)
        edges = [first_ns + at * counted_ns // BLOCKS for at in range(BLOCKS + 1)]
        edges_ns = np.array(edges, np.int64)
        starts, ends = Moments.of(starts_ns, weight), Moments.of(ends_ns, weight)
        time_ns = _time_ns(starts, ends, edges_ns)
        is_counted = times.served & (ends_ns >= edges_ns[0]) & (ends_ns < edges_ns[-1])
        leaving = ends_ns[is_counted]
        under_way = np.minimum(_leaving(starts, ends, leaving), time_ns.shape[1] - 1)
        place = _block(edges_ns, leaving) * time_ns.shape[1] + under_way
        each = weighted.of(is_counted, weight)
        served = np.bincount(place, each, minlength=time_ns.size).reshape(time_ns.shape)
        return cls(
            edges_ns=edges_ns,
            time_ns=time_ns,
            served=served.astype(np.float64),
            starts=starts,
            ends=ends,
            mean_weight=1.0 if weight is None else float(weighted.mean(weight, weight)),
        )

    @property
    def length_ns(self) -> int:
        """How long was counted."""
        return int(self.edges_ns[-1] - self.edges_ns[0])

    def block(self, at_ns: Times) -> NDArray[np.int64]:
        """The stretch of each moment; below 0 or `BLOCKS`: none."""
        return _block(self.edges_ns, at_ns)

    def coming(self, at_ns: Times, weight: weighted.Weight = None) -> NDArray[np.int64]:
        """How many are under way when some start, themselves included."""
        started, ended = self.starts.before(at_ns), self.ends.until(at_ns)
        found: NDArray[np.int64] = np.maximum(started - ended, 0) + (
            1 if weight is None else weight
        )
        return found

    def leaving(self, at_ns: Times) -> NDArray[np.int64]:
        """How many are under way when one ends, itself included."""
        return _leaving(self.starts, self.ends, at_ns)


def _block(edges_ns: Times, at_ns: Times) -> NDArray[np.int64]:
    place: NDArray[np.int64] = np.searchsorted(edges_ns, at_ns, side="right")
    return place - 1


def _leaving(starts: Moments, ends: Moments, at_ns: Times) -> NDArray[np.int64]:
    found: NDArray[np.int64] = np.maximum(starts.before(at_ns) - ends.before(at_ns), 1)
    return found


def _time_ns(starts: Moments, ends: Moments, edges_ns: Times) -> Floats:
    """How long so many were under way, in each stretch."""
    at_ns = np.concatenate([ends.at_ns, starts.at_ns, edges_ns])
    change = np.concatenate([-ends.requests(), starts.requests(), np.zeros_like(edges_ns)])
    order = np.argsort(at_ns, kind="stable")  # one that ends then leaves before the next one comes
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
