"""The latest requests of one objective, as an alert may have to describe them."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from sys import intern

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.slo.guilty_stage import guilty_stage, measured_ledger
from latencytrace.analysis.slo.verdict import measured_ns
from latencytrace.analysis.tail.distinctions import LEAST_REQUESTS, distinctions
from latencytrace.model import BadRequest, Evidence, Ledger, Objective, Request, RequestStatus
from latencytrace.model.alert import MOSTLY
from latencytrace.service.ledger_table import LedgerTable

LATEST_BAD, LATEST_GOOD = 200, 300
GOOD_EVERY_NS = 10**8  # one of each so long is enough to know what is usual
BESIDE = 30  # good requests that are held with each bad one
EVIDENCE = 50  # bad requests, the newest: what is true by now, were it something else before
SLOWEST = 3
_BOTH = (True, False)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A request as an alert may have to describe it."""

    at_ns: int
    failed: bool
    value_ns: int | None
    ledger: Ledger  # of the part that is measured
    request: Request  # without its segments
    beside: tuple["_Seen", ...]  # of a bad one: good ones that came just before

    @property
    def bad_request(self) -> BadRequest:
        """The request as alerts show it."""
        return BadRequest(
            trace_id=self.request.trace_id,
            span_id=self.request.span_id,
            status=self.request.status,
            duration_ns=self.request.duration_ns,
            ledger=self.request.ledger,
        )


class LatestRequests:
    """Holds the newest bad requests of an objective, and good ones of the same time."""

    def __init__(self) -> None:
        self._bad: deque[_Seen] = deque(maxlen=LATEST_BAD)
        self._good: deque[_Seen] = deque(maxlen=LATEST_GOOD)
        self._good_ns = 0  # when the latest of them ended

    def note(
        self,
        objective: Objective,
        table: LedgerTable,
        places: NDArray[np.int64],
        at_ns: NDArray[np.int64],
        is_good: NDArray[np.bool_],
    ) -> None:
        """Note what there is to say of requests, which only the latest are made objects for.

        Args:
            objective: The one that they are judged by.
            places: (n,): where they are in it.
            at_ns: (n,): the moment at which each counts.
            is_good: (n,): whether it meets the objective.
        """
        good: list[int] = []
        for number in np.flatnonzero(is_good).tolist():
            ended_ns = int(at_ns[number])
            if abs(ended_ns - self._good_ns) >= GOOD_EVERY_NS:
                good.append(number)
                self._good_ns = ended_ns
        latest_good = np.array(good[-LATEST_GOOD:], int)
        self._good += _seen(objective, table.taken(places[latest_good]), at_ns[latest_good])
        bad = np.flatnonzero(~is_good)[-LATEST_BAD:]
        beside = tuple(self._good)[-BESIDE:]
        self._bad += _seen(objective, table.taken(places[bad]), at_ns[bad], beside)

    def evidence(self, since_ns: int) -> Evidence:
        """Gather what is known of the newest bad requests since a moment, each as last revised."""
        latest = {(seen.request.trace_id, seen.request.span_id): seen for seen in self._bad}
        burning = [seen for seen in latest.values() if seen.at_ns >= since_ns]
        bad = sorted(burning, key=lambda seen: seen.at_ns, reverse=True)[:EVIDENCE]
        failed, slow = ([seen for seen in bad if seen.failed is is_failed] for is_failed in _BOTH)
        mostly_failed = bool(bad) and len(failed) >= MOSTLY * len(bad)
        by_length = sorted(slow, key=lambda seen: seen.value_ns or 0, reverse=True)
        shown = failed if mostly_failed else by_length
        usual = [seen.ledger for seen in self._good]
        apart = distinctions(
            [seen.request for seen in bad], [seen.request for seen in self._beside(bad)]
        )
        return Evidence(
            guilty=None if mostly_failed else guilty_stage([one.ledger for one in slow], usual),
            failed_ratio=len(failed) / len(bad) if bad else None,
            version=next((one.value for one in apart if one.trait == "version"), None),
            distinctions=apart,
            slowest=tuple(seen.bad_request for seen in shown[:SLOWEST]),
        )

    def _beside(self, bad: Sequence[_Seen]) -> Sequence[_Seen]:
        """The good requests of the same time; where too few came then, those just before."""
        if not bad:
            return ()
        first_ns, last_ns = bad[-1].at_ns, bad[0].at_ns
        before = {id(good): good for one in bad for good in one.beside}
        every = before | {id(good): good for good in self._good}
        same = [good for good in every.values() if first_ns <= good.at_ns <= last_ns]
        return same if len(same) >= LEAST_REQUESTS else list(before.values())


def _seen(
    objective: Objective,
    table: LedgerTable,
    at_ns: Iterable[int],
    beside: tuple[_Seen, ...] = (),
) -> Iterator[_Seen]:
    for request, ended_ns in zip(table.requests(), at_ns, strict=True):
        value_ns = measured_ns(objective, request)
        slow = value_ns is not None and value_ns > objective.threshold_ns
        yield _Seen(
            at_ns=int(ended_ns),
            failed=request.status not in {RequestStatus.OK, RequestStatus.CANCELLED} and not slow,
            value_ns=value_ns,
            ledger=measured_ledger(objective, request),
            request=replace(request, segments=(), repairs=(), attributes=_interned(request)),
            beside=beside,
        )


def _interned(request: Request) -> tuple[tuple[str, str], ...]:
    """The attributes of a request: many have the same, which are then held once."""
    return tuple((intern(key), intern(value)) for key, value in request.attributes)
