"""Looks up the call that made the requests of an alert fail."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from latencytrace.analysis.slo.guilty_stage import failing_call
from latencytrace.errors import StoreError
from latencytrace.model import BadRequest, FailingCall, Span

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
