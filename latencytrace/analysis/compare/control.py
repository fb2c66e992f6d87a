"""The agent's own part in durations: requests against a control group traced in least detail.

Which requests are of the control group is up to chance alone, whatever their route, load or
moment: the groups differ by what tracing costs. Each route is held against itself, and the
routes count by their requests. Intervals come of the bootstrap of each group's median, whose
place among the sorted durations is drawn directly.

Source: Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 1979,
section 3: the bootstrap distribution of the median.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.cohorts.request_columns import RequestColumns, Words

Times = NDArray[np.int64]
Floats = NDArray[np.float64]

LEAST: Final = 100  # requests of each group of a route, for an interval that means something
DRAWS: Final = 2_000
_TOLD: Final = (0.025, 0.975)  # a 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much longer a request takes where all is recorded; the interval holds at 95 %."""

    difference_ns: float
    low_ns: float
    high_ns: float
    control_ns: float  # the median of the control group


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteOverhead:
    """One route of a service."""

    service: str
    route: str
    requests: int
    control_requests: int
    found: Difference | None  # None: too few of either group


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOverhead:
    """All routes, and each, the one with most requests first."""

    requests: int  # of the routes that could be compared
    control_requests: int
    needed_control_requests: int | None  # as many more of one route; None: there are enough
    found: Difference | None  # None: of no route there are enough
    routes: Sequence[RouteOverhead]


def control_overhead(full: RequestColumns, control: RequestColumns) -> ControlOverhead:
    """Hold the requests that are traced in full against those of the control group.

    Of a service with a control group only the processes that have one count: what others served
    was served at another time, by another version or elsewhere.

    Args:
        full: All of them, or a share.
        control: From the same time.
    """
    full = full.taken(np.flatnonzero(_beside(full, control)))
    random = np.random.default_rng(0)  # the same requests give the same answer
    groups, controls = _by_route(full), _by_route(control)
    nothing = np.zeros(0, np.int64)
    routes: list[RouteOverhead] = []
    weights: list[int] = []
    drawn: list[Floats] = []
    for name, times in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        held = controls.get(name, nothing)
        found = None
        if min(len(times), len(held)) >= LEAST:
            draws = _medians(times, random) - _medians(held, random)
            found = _difference(float(np.median(times)), float(np.median(held)), draws)
            weights.append(len(times))
            drawn.append(draws)
        routes.append(
            RouteOverhead(
                service=name[0], route=name[1], requests=len(times),
                control_requests=len(held), found=found,
            )
        )  # fmt: skip
    compared = [route for route in routes if route.found is not None]
    return ControlOverhead(
        requests=sum(route.requests for route in compared),
        control_requests=sum(route.control_requests for route in compared),
        needed_control_requests=None if compared else _needed(routes),
        found=_together(compared, np.array(weights, np.float64), drawn) if compared else None,
        routes=routes,
    )


def _beside(full: RequestColumns, control: RequestColumns) -> NDArray[np.bool_]:
    """Tell which rows a process with a control group served, or a service without one."""
    of_process = np.isin(_names(full.instance), _names(control.instance))
    of_service = np.isin(_names(full.service), _names(control.service))
    return of_process | ~of_service


def _names(words: Words) -> NDArray[np.str_]:
    """The word of each row; what is unknown is the empty one."""
    return np.array([*words.names, ""], np.str_)[words.number]


def _by_route(columns: RequestColumns) -> dict[tuple[str, str], Times]:
    """The durations of each service's routes, sorted."""
    width = len(columns.route.names) + 1
    key = columns.service.number.astype(np.int64) * width + columns.route.number
    order = np.lexsort((columns.duration_ns, key))
    present, first = np.unique(key[order], return_index=True)
    parts = np.split(columns.duration_ns[order], first[1:])
    return {
        (columns.service.names[code // width], columns.route.names[code % width]): times
        for code, times in zip(present.tolist(), parts, strict=bool(len(present)))
    }


def _medians(in_order: Times, random: np.random.Generator) -> Floats:
    """Medians of samples drawn with replacement: that of uniform numbers is beta-distributed."""
    count = len(in_order)
    middle = (count + 1) // 2
    places = (random.beta(middle, count - middle + 1, DRAWS) * count).astype(np.int64)
    return in_order[np.minimum(places, count - 1)].astype(np.float64)


def _difference(full_ns: float, control_ns: float, draws: Floats) -> Difference:
    low_ns, high_ns = np.quantile(draws, _TOLD).tolist()
    return Difference(
        difference_ns=full_ns - control_ns, low_ns=low_ns, high_ns=high_ns, control_ns=control_ns
    )


def _together(
    compared: Sequence[RouteOverhead], weights: Floats, drawn: Sequence[Floats]
) -> Difference:
    share = weights / weights.sum()
    found = [route.found for route in compared if route.found is not None]
    control_ns = float(share @ np.array([one.control_ns for one in found]))
    difference_ns = float(share @ np.array([one.difference_ns for one in found]))
    return _difference(control_ns + difference_ns, control_ns, share @ np.array(drawn))


def _needed(routes: Sequence[RouteOverhead]) -> int:
    """How many more requests the nearest route's control group needs."""
    return min((LEAST - min(route.control_requests, LEAST - 1) for route in routes), default=LEAST)
