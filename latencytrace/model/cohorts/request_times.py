"""When the requests of a cohort were under way, of all of them and nothing else of each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """The times of `n` requests, in order of start."""

    start_ns: Times  # since the Unix epoch
    duration_ns: Times
    served: NDArray[np.bool_]  # answered with success

    @classmethod
    def of(cls, rows: Times) -> "RequestTimes":
        """Lay out a start, a duration and whether it was served for each, one after the other."""
        order = np.argsort(rows[::3], kind="stable")
        start_ns, duration_ns, served = (rows[place::3][order] for place in range(3))
        return cls(start_ns=start_ns, duration_ns=duration_ns, served=served.astype(np.bool_))

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.start_ns)
