"""Amendments to an alert's cause: the call that fails, and a cause that is another by now."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from latencytrace.analysis.slo.guilty_stage import failing_call
from latencytrace.errors import StoreError
from latencytrace.model import Alert, AlertKind, BadRequest, FailingCall, Span

SURE_NS = 30 * 10**9  # for which the new answer must stay the same
PAUSE_NS = 300 * 10**9  # between two amendments of one alert


@dataclass(slots=True, kw_only=True)
class _Said:
    """The cause that an alert named, and the one that seems to be true."""

    answer: str | None
    said_ns: int | None = None  # when it was amended
    other: str | None = None
    other_since_ns: int = 0


class Amendments:
    """Holds what alerts say by now to what was said of them.

    After a restart it takes for said what an alert says first: that was sent before.

    Args:
        now_ns: The evaluator's clock.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._said: dict[str, _Said] = {}  # by fingerprint

    def due(self, firing: Iterable[Alert]) -> list[Alert]:
        """Return the alerts that are to be sent again, since their cause is another one."""
        now_ns = self._now_ns()
        burning = {one.fingerprint: one for one in firing if one.kind is AlertKind.BURN}
        self._said = {
            name: self._said.get(name) or _Said(answer=alert.evidence.answer)
            for name, alert in burning.items()
        }
        return [one for name, one in burning.items() if _is_amended(self._said[name], one, now_ns)]


def _is_amended(said: _Said, alert: Alert, now_ns: int) -> bool:
    answer = alert.evidence.answer
    if answer is None or answer == said.answer:
        said.other = None
        return False
    if answer != said.other:
        said.other, said.other_since_ns = answer, now_ns
    sure = now_ns - said.other_since_ns >= SURE_NS
    if not sure or (said.said_ns is not None and now_ns - said.said_ns < PAUSE_NS):
        return False
    said.answer, said.said_ns, said.other = answer, now_ns, None
    return True


AGAIN_NS = 10 * 10**9  # after which an objective's requests are looked up again
_log = logging.getLogger(__name__)

# Raised by a store that is at fault; an alert is sent without its failing call then.
_FAULTS = (
    ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, StoreError, TypeError,
    ValueError,
)  # fmt: skip


class FailingCalls:
    """Reads the spans of a few failed requests of each objective, not at every evaluation.

    Args:
        spans_of: The spans of traces, of the store.
        now_ns: The evaluator's clock.
    """

    def __init__(
        self,
        spans_of: Callable[[Collection[str]], Mapping[str, Sequence[Span]]],
        now_ns: Callable[[], int],
    ) -> None:
        self._spans_of = spans_of
        self._now_ns = now_ns
        self._known: dict[str, tuple[int, FailingCall | None]] = {}  # by objective: since when

    def __call__(self, series: str, requests: Sequence[BadRequest]) -> FailingCall | None:
        """Return the call that made most of these fail; None: it is not known.

        Args:
            series: The requests: an objective's, of one route.
            requests: The newest that failed.
        """
        known = self._known.get(series)
        now_ns = self._now_ns()
        if known is not None and 0 <= now_ns - known[0] < AGAIN_NS:
            return known[1]
        found = self._looked_up(requests)
        self._known[series] = now_ns, found
        return found

    def _looked_up(self, requests: Sequence[BadRequest]) -> FailingCall | None:
        try:
            spans = self._spans_of({one.trace_id for one in requests})
        except _FAULTS as error:
            _log.warning("the failing call of an alert could not be looked up: %s", error)
            return None
        return failing_call({one.span_id: spans.get(one.trace_id, ()) for one in requests})
