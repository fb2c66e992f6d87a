"""The use of a GPU by each kind of work, from counters that saw them all mixed.

A window of the counters is 100 ms or more, a decode step 5 to 30 ms: a window mixes kinds
of work. Each window says that the shares of its time that the kinds had, times what each of
them used, add up to what was counted; many windows together say what each used.

    counted[w] = sum over kinds of share[w, kind] * used[kind] + noise
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.gpu import DeviceWork, GpuWindow
from latencytrace.model.stage import Stage

FOREIGN_RATIO: Final = 0.15  # of a window that the device worked and we know nothing of
FEWEST_WINDOWS: Final = 10
MOST_WINDOWS: Final = 3000
MOST_KINDS: Final = 12  # those with most work; what the others used is not reported
LARGEST_ERROR_RATIO: Final = 0.03  # a wider interval is no answer
SMALLEST_SHARE: Final = 0.05  # of a window, to count as one that a kind was in
MOST_ALIKE: Final = 100.0  # variance inflation: kinds that only ever come together
COUNTERS: Final = ("bandwidth_ratio", "tensor_ratio", "fp32_ratio", "sm_ratio")

Shares = NDArray[np.float64]  # windows by kinds


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """Work of one kind: what uses the device alike."""

    service: str
    model: str
    stage: Stage

    @classmethod
    def of(cls, work: DeviceWork) -> "Kind":
        return cls(work.service, work.model or "", work.stage)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio, and by how much it may be wrong (two standard errors)."""

    ratio: float
    error_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """The use of the device by one kind of work while it ran; what is unknown is left out."""

    used: Mapping[str, Estimate] = field(default_factory=dict)  # by a counter's name
    window_count: int = 0  # that it was in
    coverage_ratio: float = 0.0  # of its device time that windows saw
    foreign_ratio: float | None = None  # of its windows in which others were at work too
    throttled_ratio: float | None = None  # of its windows in which clocks were held down

    def ratio(self, counter: str) -> float | None:
        """One of them; None: unknown."""
        estimate = self.used.get(counter)
        return None if estimate is None else estimate.ratio


def device_use(
    windows: Sequence[GpuWindow], work: Sequence[DeviceWork]
) -> Mapping[Kind, DeviceUse]:
    """Return what each kind of work used of one GPU.

    Args:
        windows: Windows of that GPU, in order of time; the newest `MOST_WINDOWS` are read.

    Returns:
        Every kind there is; of one that cannot be distinguished from others, that too few
        windows saw, or whose interval is too wide, the counters are left out.

    Source: ordinary least squares, bounded to [0, 1] by fixing what lies outside.
    """
    windows = windows[-MOST_WINDOWS:]
    kinds = _kinds(work)
    if windows:
        work = [one for one in work if one.end_ns > windows[0].start_ns]
    else:
        return {kind: DeviceUse() for kind in kinds if kind is not None}
    shares = window_shares(windows, work, kinds)
    foreign = _foreign(windows, shares)
    return {
        kind: DeviceUse(
            used=used,
            window_count=int((shares[:, place] >= SMALLEST_SHARE).sum()),
            coverage_ratio=_coverage(windows, work, kind, shares[:, place]),
            foreign_ratio=_ratio_of_windows(foreign, shares[:, place]),
            throttled_ratio=_ratio_of_windows(_throttled(windows), shares[:, place]),
        )
        for place, (kind, used) in enumerate(
            zip(kinds, _used(windows, shares, foreign), strict=False)
        )
        if kind is not None
    }


def window_shares(
    windows: Sequence[GpuWindow], work: Sequence[DeviceWork], kinds: Sequence[Kind | None]
) -> Shares:
    """The share of each window that the device worked on each kind.

    Between its start and its end a piece of work is taken to be spread evenly, gaps too.
    """
    starts = np.array([window.start_ns for window in windows], dtype=np.int64)
    ends = np.array([window.end_ns for window in windows], dtype=np.int64)
    places = {kind: place for place, kind in enumerate(kinds)}
    shares = np.zeros((len(windows), len(kinds)))
    for one in work:
        length_ns = one.end_ns - one.start_ns
        if length_ns <= 0:
            continue
        first = int(np.searchsorted(ends, one.start_ns, side="right"))
        last = int(np.searchsorted(starts, one.end_ns, side="left"))
        if first >= last:
            continue
        inside = np.minimum(ends[first:last], one.end_ns) - np.maximum(
            starts[first:last], one.start_ns
        )
        density = min(1.0, one.device_ns / length_ns)
        place = places.get(Kind.of(one), len(kinds) - 1)
        shares[first:last, place] += density * inside / (ends - starts)[first:last]
    # Passes that overlap waited for each other: the device was with one of them at a time.
    shares /= np.maximum(1.0, shares.sum(axis=1, keepdims=True))
    return shares


def _kinds(work: Sequence[DeviceWork]) -> list[Kind | None]:
    """The kinds with most work; None stands for all the others, if there are any."""
    device_ns: dict[Kind, int] = {}
    for one in work:
        kind = Kind.of(one)
        device_ns[kind] = device_ns.get(kind, 0) + one.device_ns
    ordered = sorted(device_ns, key=lambda kind: (-device_ns[kind], kind))
    return [*ordered[:MOST_KINDS], *([None] if len(ordered) > MOST_KINDS else [])]


def _column(windows: Sequence[GpuWindow], counter: str) -> NDArray[np.float64]:
    values = [getattr(window, counter) for window in windows]
    return np.array([np.nan if value is None else value for value in values])


def _foreign(windows: Sequence[GpuWindow], shares: Shares) -> NDArray[np.float64]:
    """1: another program was at work in the window, 0: not, NaN: unknown."""
    busy = _column(windows, "engine_ratio")
    unknown_of = busy - np.minimum(1.0, shares.sum(axis=1))
    return np.where(np.isnan(busy), np.nan, np.where(unknown_of > FOREIGN_RATIO, 1.0, 0.0))


def _throttled(windows: Sequence[GpuWindow]) -> NDArray[np.float64]:
    values = [window.throttled for window in windows]
    return np.array([np.nan if value is None else float(value) for value in values])


def _ratio_of_windows(holds: NDArray[np.float64], share: NDArray[np.float64]) -> float | None:
    """Return how often something holds where a kind was, weighted by its share of each window."""
    known = ~np.isnan(holds)
    weight = float(share[known].sum())
    return float((holds[known] * share[known]).sum()) / weight if weight > 0 else None


def _coverage(
    windows: Sequence[GpuWindow],
    work: Sequence[DeviceWork],
    kind: Kind,
    share: NDArray[np.float64],
) -> float:
    """Return how much of its device time windows with counters saw, since the first of them."""
    since_ns, until_ns = windows[0].start_ns, windows[-1].end_ns
    whole_ns = sum(
        one.device_ns
        for one in work
        if one.end_ns > since_ns and one.start_ns < until_ns and Kind.of(one) == kind
    )
    seen_ns = sum(
        part * (window.end_ns - window.start_ns)
        for part, window in zip(share, windows, strict=True)
        if window.bandwidth_ratio is not None
    )
    return min(1.0, float(seen_ns) / whole_ns) if whole_ns else 0.0


def _used(
    windows: Sequence[GpuWindow], shares: Shares, foreign: NDArray[np.float64]
) -> list[dict[str, Estimate]]:
    """Every counter's estimate for each kind that has one."""
    found: list[dict[str, Estimate]] = [{} for _ in range(shares.shape[1])]
    for counter in COUNTERS:
        counted = _column(windows, counter)
        ours = ~np.isnan(counted) & (foreign != 1) & (shares.sum(axis=1) > 0)
        for place, estimate in _fitted(shares[ours], counted[ours]).items():
            found[place][counter] = estimate
    return found


def _fitted(shares: Shares, counted: NDArray[np.float64]) -> Mapping[int, Estimate]:
    """Bounded least squares; kinds that cannot be distinguished are left out."""
    present = [
        place
        for place in range(shares.shape[1])
        if int((shares[:, place] >= SMALLEST_SHARE).sum()) >= FEWEST_WINDOWS
    ]
    freedom = shares.shape[0] - len(present)
    if not present or freedom < FEWEST_WINDOWS // 2:
        return {}
    design = shares[:, present]
    inverse = np.linalg.pinv(design.T @ design)
    squares = (design**2).sum(axis=0)
    used = _bounded(design, counted)
    # What kinds too rare to be fitted used is in the residual, and widens the intervals.
    variance = float(((counted - design @ used) ** 2).sum()) / freedom
    singular = np.linalg.matrix_rank(design) < len(present)
    estimates = {}
    for at, place in enumerate(present):
        alike = float(inverse[at, at] * squares[at])
        error = 2 * float(np.sqrt(variance * inverse[at, at]))
        if alike <= MOST_ALIKE and error <= LARGEST_ERROR_RATIO and not singular:
            estimates[place] = Estimate(float(used[at]), error)
    return estimates


def _bounded(design: Shares, counted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares within [0, 1]: what lies outside is fixed at the bound, the rest fitted."""
    used = np.zeros(design.shape[1])
    free = np.ones(design.shape[1], dtype=bool)
    for _ in range(design.shape[1]):
        rest = counted - design[:, ~free] @ used[~free]
        used[free] = np.linalg.lstsq(design[:, free], rest, rcond=None)[0]
        outside = free & ((used < 0) | (used > 1))
        if not outside.any():
            break
        used[outside] = np.clip(used[outside], 0, 1)
        free &= ~outside
        if not free.any():
            break
    return used
