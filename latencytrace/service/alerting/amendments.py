"""Alerts with another cause than was sent."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from latencytrace.model import Alert, AlertKind

SURE_NS = 30 * 10**9  # for which the new answer must stay the same
PAUSE_NS = 300 * 10**9  # between two amendments of one alert


@dataclass(slots=True, kw_only=True)
class _Said:
    """What was said of an alert's cause, and what seems to be true."""

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
