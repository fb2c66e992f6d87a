"""Readings of engines of the last hours, and what requests met of them.

A request's model is known, and when it began: it met what the engines of that model reported next.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.cohorts.request_columns import KnownNumbers, RequestColumns
from latencytrace.service.reports.engine_readings import EngineModel, Reading

MOST_READINGS: Final = 1 << 14  # of a model on a target: 22 hours of them
MOST_SERIES: Final = 64  # models on targets
LONGEST_GAP_NS: Final = 20 * 10**9  # beyond it a value is unknown
_FIRST_ROWS: Final = 64
_PERCENT: Final = 100.0
_MOST: Final = 2.0**53  # of a reading: more fits no number of a request

# The names that requests have them under: how much of each reading is one.
SHOWN: Final[Mapping[Reading, tuple[str, float]]] = {
    Reading.WAITING: ("engine_waiting_requests", 1.0),
    Reading.RUNNING: ("engine_running_requests", 1.0),
    Reading.BATCH_SIZE: ("engine_batch_size", 1.0),
    Reading.KV_CACHE_USE: ("engine_kv_cache_use_percent", _PERCENT),
    Reading.PREFIX_CACHE_HIT: ("engine_prefix_cache_hit_percent", _PERCENT),
    Reading.ACCEPTANCE: ("engine_speculative_acceptance_percent", _PERCENT),
    Reading.PREEMPTED: ("engine_preemptions", 1.0),
}

Floats = NDArray[np.float64]


class EngineHistory:
    """Keeps readings until they are too many, and forgets the oldest; for any thread.

    Args:
        now_ns: The time of day.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._series: dict[tuple[str, EngineModel], _Series] = {}
        self._lock = threading.Lock()

    def note(self, target: str, of: EngineModel, read: Mapping[Reading, float]) -> None:
        """Keep the readings of a model on a target; of too many models, the first are kept."""
        at_ns = self._now_ns()
        with self._lock:
            series = self._series.get((target, of))
            if series is None:
                if len(self._series) >= MOST_SERIES:
                    return
                series = self._series[target, of] = _Series()
            series.append(at_ns, [read.get(reading, np.nan) for reading in SHOWN])

    def beside(self, columns: RequestColumns) -> RequestColumns:
        """Return the requests with what the engines of their models reported when they began.

        Of several engines of a model it is the mean. Where the only engines name no model,
        theirs is that of every request with one.
        """
        with self._lock:
            by_model: dict[str, list[tuple[NDArray[np.int64], Floats]]] = {}
            for (_, (_, model)), series in self._series.items():
                by_model.setdefault(model, []).append(series.rows())
        if not by_model or not len(columns):
            return columns
        reported = np.full((len(columns), len(SHOWN)), np.nan)
        for number, name in enumerate(columns.model.names):
            found = by_model.get(name, by_model[""] if by_model.keys() == {""} else [])
            rows = np.flatnonzero(columns.model.number == number)
            if found and len(rows):
                reported[rows] = _mean([_reported(*one, columns.start_ns[rows]) for one in found])
        numbers = {
            name: KnownNumbers(
                value=np.rint(np.nan_to_num(reported[:, place]) * times).astype(np.int64),
                known=~np.isnan(reported[:, place]),
            )
            for place, (name, times) in enumerate(SHOWN.values())
        }
        known = {name: one for name, one in numbers.items() if one.known.any()}
        return replace(columns, engine=known)


class _Series:
    """Readings of one model on one target, in order of time."""

    def __init__(self) -> None:
        self._at_ns = np.zeros(_FIRST_ROWS, np.int64)
        self._values = np.zeros((_FIRST_ROWS, len(SHOWN)), np.float32)
        self._count = 0

    def append(self, at_ns: int, values: list[float]) -> None:
        """Add readings; those of a clock that was set back are left out."""
        if self._count and at_ns <= self._at_ns[self._count - 1]:
            return
        if self._count == len(self._at_ns):
            self._make_room()
        self._at_ns[self._count] = at_ns
        self._values[self._count] = np.clip(values, -_MOST, _MOST)
        self._count += 1

    def rows(self) -> tuple[NDArray[np.int64], Floats]:
        """Return the times and the readings."""
        return self._at_ns[: self._count].copy(), self._values[: self._count].astype(np.float64)

    def _make_room(self) -> None:
        if self._count < MOST_READINGS:
            self._at_ns = np.concatenate([self._at_ns, np.zeros_like(self._at_ns)])
            self._values = np.concatenate([self._values, np.zeros_like(self._values)])
            return
        kept = self._count // 2
        self._at_ns[:kept] = self._at_ns[self._count - kept : self._count]
        self._values[:kept] = self._values[self._count - kept : self._count]
        self._count = kept


def _reported(at_ns: NDArray[np.int64], values: Floats, start_ns: NDArray[np.int64]) -> Floats:
    """The readings next after each start; NaN where that was too much later."""
    place = np.minimum(np.searchsorted(at_ns, start_ns), len(at_ns) - 1)
    later_ns = at_ns[place] - start_ns
    fresh = (later_ns >= 0) & (later_ns <= LONGEST_GAP_NS)
    return np.asarray(np.where(fresh[:, None], values[place], np.nan))


def _mean(reported: list[Floats]) -> Floats:
    """The mean of what is known; NaN where nothing is."""
    known = sum(~np.isnan(one) for one in reported)
    total = sum(np.nan_to_num(one) for one in reported)
    return np.asarray(np.where(known > 0, total / np.maximum(known, 1), np.nan))
