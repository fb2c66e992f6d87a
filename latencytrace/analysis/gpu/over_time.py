"""A GPU over time: its counters, and beside them the device time of traced work."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.gpu import DeviceWork, GpuWindow

COLUMNS = 60
LONGEST_NS = 3_600 * 10**9
COUNTERS = ("sm_ratio", "bandwidth_ratio", "tensor_ratio", "engine_ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOverTime:
    """Columns of equal length; a ratio is None where nothing was read."""

    since_ns: int
    column_ns: int
    ratios: dict[str, list[float | None]]  # by counter: means over each column
    throttled: list[bool]  # clocks were held down at some time in it
    device_ns: list[int]  # how long traced work ran on the device, of each column
    works: list[int]  # pieces of traced work that began in it
    until_ns: int = field(init=False)

    def __post_init__(self) -> None:
        """Find the end."""
        object.__setattr__(self, "until_ns", self.since_ns + COLUMNS * self.column_ns)


def over_time(windows: Sequence[GpuWindow], work: Sequence[DeviceWork]) -> GpuOverTime | None:
    """Lay out the last hour of a GPU; None: nothing is known of it.

    A window counts in the column that its middle lies in. Work is apportioned to the columns
    that it overlaps, evenly over its time on the device.

    Args:
        windows: Windows of one GPU, in any order.
        work: Work on the same GPU, in order of time.
    """
    ends = [*(one.end_ns for one in windows), *(one.end_ns for one in work)]
    if not ends:
        return None
    starts = [*(one.start_ns for one in windows), *(one.start_ns for one in work)]
    until_ns = max(ends)
    since_ns = max(min(starts), until_ns - LONGEST_NS)
    column_ns = max(-(-(until_ns - since_ns) // COLUMNS), 1)
    counted = [one for one in windows if one.start_ns + one.end_ns >= 2 * since_ns]
    middle = np.array([(one.start_ns + one.end_ns) // 2 for one in counted], np.int64)
    places = np.minimum((middle - since_ns) // column_ns, COLUMNS - 1)
    lengths = np.array([one.end_ns - one.start_ns for one in counted], np.float64)
    throttled = np.array([bool(one.throttled) for one in counted], np.bool_)
    device_ns, works = _work(work, since_ns, column_ns)
    return GpuOverTime(
        since_ns=since_ns,
        column_ns=column_ns,
        ratios={name: _means(counted, name, places, lengths) for name in COUNTERS},
        throttled=np.bincount(places[throttled], minlength=COLUMNS).astype(np.bool_).tolist(),
        device_ns=device_ns,
        works=works,
    )


def _means(
    windows: Sequence[GpuWindow],
    name: str,
    places: NDArray[np.int64],
    lengths: NDArray[np.float64],
) -> list[float | None]:
    values = np.array([getattr(one, name) for one in windows], np.float64)  # None: not a number
    known = ~np.isnan(values)
    whole = np.bincount(places[known], lengths[known], COLUMNS)
    totals = np.bincount(places[known], (lengths * values)[known], COLUMNS)
    pairs = zip(totals.tolist(), whole.tolist(), strict=True)
    return [total / length if length else None for total, length in pairs]


def _work(
    work: Sequence[DeviceWork], since_ns: int, column_ns: int
) -> tuple[list[int], list[int]]:
    device_ns, begun = [0.0] * COLUMNS, [0] * COLUMNS
    for one in work:
        first = (one.start_ns - since_ns) // column_ns
        if 0 <= first < COLUMNS:
            begun[first] += 1
        length_ns = max(one.end_ns - one.start_ns, 1)
        last = min((one.end_ns - 1 - since_ns) // column_ns, COLUMNS - 1)
        for place in range(max(first, 0), max(first, last) + 1 if first < COLUMNS else 0):
            left_ns = since_ns + place * column_ns
            shared_ns = min(one.start_ns + length_ns, left_ns + column_ns) - max(
                one.start_ns, left_ns
            )
            device_ns[place] += one.device_ns * shared_ns / length_ns
    return [round(value) for value in device_ns], begun
