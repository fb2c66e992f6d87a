"""Counts of one objective: its requests over time, and the latest of them."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.verdicts import GOOD, NOT_JUDGED, verdicts
from latencytrace.analysis.slo.burn_rate import usual_requests
from latencytrace.analysis.slo.guilty_stage import guilty_stage, measured_ledger
from latencytrace.analysis.slo.onset import burning_since
from latencytrace.analysis.slo.over_time import Slots
from latencytrace.analysis.slo.traffic import LOOK_NS, LULL_DAYS
from latencytrace.analysis.slo.verdict import measured_ns
from latencytrace.analysis.tail.distinctions import Traits, distinctions, traits_of
from latencytrace.model import (
    BadRequest,
    BurnRule,
    Evidence,
    Ledger,
    Objective,
    Request,
    RequestStatus,
    Tally,
)
from latencytrace.model.alert import MOSTLY
from latencytrace.model.objective import DAY_NS, HOUR_NS
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.objectives.tally_ring import rings_of

LATEST_BAD, LATEST_GOOD = 200, 300
GOOD_EVERY_NS = 10**8  # one of each so long is enough to know what is usual
EVIDENCE = 50  # bad requests, the newest: what is true by now, were it something else before
SLOWEST = 3
_FASTEST_IN_PERIOD = 34_560  # short windows of the fastest tier
_BOTH = (True, False)

_STEPS = 500  # of what is covered of a window: how exactly that is known


@dataclass(frozen=True, slots=True)
class _Seen:
    """A request as an alert may have to describe it."""

    at_ns: int
    failed: bool
    value_ns: int | None
    ledger: Ledger  # of the part that is measured
    traits: Traits
    request: BadRequest


def series_of(objective: Objective) -> str:
    """The key of an objective's counts: with another threshold they are others."""
    counted = (
        objective.service, objective.route, objective.model, objective.version,
        objective.measured, objective.threshold_ns,
        *(() if objective.slices is None else (objective.slices,)),
    )  # fmt: skip
    return f"{objective.name}:{sha256(repr(counted).encode()).hexdigest()[:16]}"


class ObjectiveCounts:
    """Counts each request once, when it has settled; exact, whatever the histograms hold.

    Args:
        objective: The one whose requests they are.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._coverages: dict[tuple[int, int], tuple[int, float]] = {}  # when each was found
        self._rings = rings_of(objective)
        self._bad: deque[_Seen] = deque(maxlen=LATEST_BAD)
        self._good: deque[_Seen] = deque(maxlen=LATEST_GOOD)
        self._good_ns = 0  # when the latest of them ended

    def change(self, objective: Objective) -> None:
        """Count the same requests for an objective whose target or tiers are others now."""
        self.objective = objective
        self._coverages.clear()

    @property
    def since_start(self) -> Tally:
        """Tally of what was judged since this process began."""
        return self._rings.since_start

    @property
    def series(self) -> str:
        """The key of its counts."""
        return series_of(self.objective)

    def count(
        self, table: LedgerTable, places: NDArray[np.int64], at_ns: NDArray[np.int64]
    ) -> int:
        """Count requests of its cohort; how many are too long ago.

        Args:
            table: Has them.
            places: (n,): where they are in it.
            at_ns: (n,): the moment at which each counts.
        """
        places, at_ns, is_good = self._note(table, places, at_ns)
        weights = None if table.weight is None else table.weight[places]
        return self._rings.add_all(at_ns, ~is_good, weights)

    def recall(
        self, table: LedgerTable, places: NDArray[np.int64], at_ns: NDArray[np.int64]
    ) -> None:
        """Note what there is to say of requests, without counting them; see `count`."""
        self._note(table, places, at_ns)

    def add(self, at_ns: int, tally: Tally) -> bool:
        """Count requests that were judged; false: that is too long ago."""
        return self._rings.add(at_ns, tally)

    def close(self, now_ns: int) -> int | None:
        """Judge the slices of time that are over; the start of the latest of them, to be kept."""
        return self._rings.close(now_ns)

    def tally(self, until_ns: int, window_ns: int) -> Tally:
        """Tally of what was judged in a window: requests, or slices of time in `SLICE_PARTS`."""
        return self._rings.of(window_ns).tally(until_ns - self._rings.delay_ns, window_ns)

    def requests(self, until_ns: int, window_ns: int) -> Tally:
        """The requests of a window of some hours that came, whatever is judged."""
        return self._rings.requests.tally(until_ns, window_ns).came

    def is_lull(self, now_ns: int, most: float) -> bool:
        """Tell whether ten minutes of this hour brought as few on each of the days before."""
        ring, slices = self._rings.of(self.objective.period_ns), self.objective.slices
        # Of slices of time no requests are known that long: then none of them may have had any.
        most, look_ns = (most, LOOK_NS) if slices is None else (0, max(LOOK_NS, slices.length_ns))
        ends_ns = [now_ns - day * DAY_NS + HOUR_NS // 2 for day in range(1, LULL_DAYS + 1)]
        found = [ring.fewest(end_ns, HOUR_NS, look_ns) for end_ns in ends_ns]
        return all(fewest is not None and fewest <= most for fewest in found)

    def coverage_ratio(
        self, until_ns: int, window_ns: int, longest_pause_ns: int | None = None
    ) -> float:
        """The share of a window without its pauses longer than that, or than a twelfth of it."""
        pause_ns = window_ns // 12 if longest_pause_ns is None else longest_pause_ns
        known = self._coverages.get((window_ns, pause_ns))
        # Of a long window it changes slowly, and costs more to know than all else.
        if known is not None and until_ns - known[0] < known[1] * window_ns / _STEPS:
            return known[1]
        ring = self._rings.of(window_ns)
        found = ring.coverage_ratio(until_ns - self._rings.delay_ns, window_ns, pause_ns)
        self._coverages[window_ns, pause_ns] = until_ns, found
        return found

    def usual_requests(self, until_ns: int, window_ns: int) -> float:
        """Mean tally of a window over the period."""
        period_ns = self.objective.period_ns
        period = self.tally(until_ns, period_ns)
        coverage_ratio = self.coverage_ratio(until_ns, period_ns)
        return usual_requests(self.objective, period, coverage_ratio, window_ns)

    def last_ns(self) -> int | None:
        """The time of the latest request, to the slot."""
        return self._rings.last_ns()

    def burning_since_ns(self, rule: BurnRule, until_ns: int) -> int | None:
        """When the burn that a tier found began; None: no request of its window was bad."""
        ring = self._rings.of(rule.long_ns)
        first_ns, bad, total = ring.slots(until_ns - self._rings.delay_ns, rule.long_ns)
        calm_ns = max(rule.short_ns // 3, 2 * self.objective.period_ns // _FASTEST_IN_PERIOD)
        calm_slots = -(-calm_ns // ring.slot_ns)
        least_ratio = rule.factor * self.objective.budget_ratio
        place = burning_since(bad, total, least_ratio, calm_slots)
        return None if place is None else first_ns + place * ring.slot_ns

    def slots(self, until_ns: int, window_ns: int) -> Slots:
        """The counts of a window, slot by slot."""
        ring = self._rings.of(window_ns)
        until_ns -= self._rings.delay_ns
        found = ring.slots(until_ns, window_ns)
        return Slots.of(ring.slot_ns, *found, until_ns - window_ns, until_ns)

    def evidence(self, since_ns: int) -> Evidence:
        """Gather what is known of the newest bad requests since a moment."""
        burning = [seen for seen in self._bad if seen.at_ns >= since_ns]
        bad = sorted(burning, key=lambda seen: seen.at_ns, reverse=True)[:EVIDENCE]
        failed, slow = ([seen for seen in bad if seen.failed is is_failed] for is_failed in _BOTH)
        mostly_failed = bool(bad) and len(failed) >= MOSTLY * len(bad)
        versions = {seen.traits.get("version") for seen in bad}
        version = versions.pop() if len(versions) == 1 else None
        by_length = sorted(slow, key=lambda seen: seen.value_ns or 0, reverse=True)
        shown = failed if mostly_failed else by_length
        usual = [seen.ledger for seen in self._good]
        return Evidence(
            guilty=None if mostly_failed else guilty_stage([one.ledger for one in slow], usual),
            failed_ratio=len(failed) / len(bad) if bad else None,
            version=str(version) if version is not None else None,
            distinctions=distinctions(
                [seen.traits for seen in bad], [seen.traits for seen in self._good]
            ),
            slowest=tuple(seen.request for seen in shown[:SLOWEST]),
        )

    def changes(self) -> Iterator[tuple[int, int, Tally]]:
        """Slots that changed since this was asked last: their length, start and counts."""
        return self._rings.changes()

    def restore(self, slots: Iterable[tuple[int, int, Tally]], closed_ns: int | None) -> None:
        """Take up what was kept: counts, and what `close` said last."""
        self._rings.restore(slots, closed_ns)

    def _note(
        self, table: LedgerTable, places: NDArray[np.int64], at_ns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Note what there is to say of requests, which only the latest are made objects for.

        Returns:
            Those that are judged: their places and moments, and whether each is good.
        """
        found = verdicts(self.objective, table)[places]
        judged = found != NOT_JUDGED
        places, at_ns, is_good = places[judged], at_ns[judged], found[judged] == GOOD
        good: list[int] = []
        for number in np.flatnonzero(is_good).tolist():
            ended_ns = int(at_ns[number])
            if abs(ended_ns - self._good_ns) >= GOOD_EVERY_NS:
                good.append(number)
                self._good_ns = ended_ns
        bad = np.flatnonzero(~is_good)[-LATEST_BAD:]
        for noted, numbers in ((self._bad, bad), (self._good, np.array(good[-LATEST_GOOD:], int))):
            requests = table.taken(places[numbers]).requests()
            for request, ended_ns in zip(requests, at_ns[numbers].tolist(), strict=True):
                noted.append(self._seen(request, ended_ns))
        return places, at_ns, is_good

    def _seen(self, request: Request, at_ns: int) -> _Seen:
        value_ns = measured_ns(self.objective, request)
        slow = value_ns is not None and value_ns > self.objective.threshold_ns
        return _Seen(
            at_ns=at_ns,
            failed=request.status not in {RequestStatus.OK, RequestStatus.CANCELLED} and not slow,
            value_ns=value_ns,
            ledger=measured_ledger(self.objective, request),
            traits=_traits(request, slow=slow),
            request=BadRequest(
                trace_id=request.trace_id,
                span_id=request.span_id,
                status=request.status,
                duration_ns=request.duration_ns,
                ledger=request.ledger,
            ),
        )


def _traits(request: Request, *, slow: bool) -> Traits:
    """The traits of a request, without the error that makes it bad: no good one has it."""
    traits = traits_of(request)
    if request.status is RequestStatus.ERROR and not slow:
        return {name: value for name, value in traits.items() if name != "status"}
    return traits
