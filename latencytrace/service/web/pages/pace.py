"""How much the service takes in, and what it lost, in one line."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry

from latencytrace.model.texts.units import rate
from latencytrace.service.answers.findings.counted import LOSSES
from latencytrace.service.answers.findings.finding import Sample

_RECEIVED: Final = "latencytrace_service_spans_received_total"
_WAITING: Final = "latencytrace_service_waiting_bytes"
_DROPPED: Final = "latencytrace_agent_spans_dropped_total"
_WITHOUT_LEDGER: Final = "latencytrace_service_spans_without_ledger_total"
_LEAST_NS, _MOST_NS = 5 * 10**9, 300 * 10**9  # between two counts that a rate is taken of


class Said(NamedTuple):
    """The state of the service now."""

    per_s: str | None  # spans; None: it was not asked before
    received: int  # spans since it started
    waiting_bytes: int
    lost: int  # spans and requests


class Pace:
    """Counts what comes between two looks at the metrics.

    Args:
        now_ns: The time of day.
    """

    def __init__(self, metrics: CollectorRegistry, now_ns: Callable[[], int]) -> None:
        self._metrics = metrics
        self._now_ns = now_ns
        self._seen: deque[tuple[int, int]] = deque([(now_ns(), 0)], maxlen=100)

    def __call__(self) -> Said:
        """Look at them."""
        samples = list(collected(self._metrics))
        received = round(_sum(samples, _RECEIVED))
        now_ns = self._now_ns()
        known = [one for one in self._seen if now_ns - one[0] >= _LEAST_NS]
        late = [one for one in known if now_ns - one[0] <= _MOST_NS]
        per_s = None
        if known:
            then_ns, had = late[0] if late else known[-1]
            per_s = rate(received - had, now_ns - then_ns)
        if not self._seen or now_ns - self._seen[-1][0] >= _LEAST_NS:
            self._seen.append((now_ns, received))
        lost = sum(_sum(samples, name) for name in (*LOSSES, _DROPPED)) + sum(
            one.value
            for one in samples
            if one.name == _WITHOUT_LEDGER and one.labels.get("reason") in {"lost", "refused"}
        )
        return Said(per_s, received, round(_sum(samples, _WAITING)), round(lost))


def collected(metrics: CollectorRegistry) -> Iterator[Sample]:
    """Read every sample that `/metrics` shows."""
    for family in metrics.collect():
        for one in family.samples:
            yield Sample(name=one.name, labels=one.labels, value=one.value)


def _sum(samples: list[Sample], name: str) -> float:
    return sum(one.value for one in samples if one.name == name)
