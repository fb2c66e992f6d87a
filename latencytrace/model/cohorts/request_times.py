"""When the requests of a cohort were under way, of all of them and nothing else of each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.cohorts.request_columns import Times, weights_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """The times of `n` requests, in order of start."""

    start_ns: Times  # since the Unix epoch
    duration_ns: Times
    served: NDArray[np.bool_]  # answered with success
    weight: Times | None = None  # requests that each stands for; None: itself

    @classmethod
    def of(cls, rows: Times) -> "RequestTimes":
        """Lay out a row for each: start, duration, whether it was served, and its weight."""
        start_ns, duration_ns, served, weight = rows[np.argsort(rows[:, 0], kind="stable")].T
        return cls(
            start_ns=start_ns,
            duration_ns=duration_ns,
            served=served.astype(np.bool_),
            weight=weights_of(weight),
        )

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.start_ns)
