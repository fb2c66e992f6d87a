"""Costs of the agent in its program: CPU time in hooks, encoder and exporter."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from latencytrace.agent.clock import cpu_ns
from latencytrace.agent.export.exporter import ExportCounts
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.timing.hook import Patch
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import beginning, timed
from latencytrace.model.stage import Stage

WINDOW_NS = 10_000_000_000  # of a rate
PRICED_FOR_NS = 60_000_000_000  # then the price of a span is measured again
_CALLS = 20  # that are timed at a stretch
_STRETCHES = 5
_YIELD_S = 20e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCost:
    """CPU time since the agent started, and seconds of it a second of late.

    That of hooks is an estimate: the spans made, times what one costs on this machine, which
    is measured once a minute on the background thread. To time each would cost more than it.
    """

    hooks_cpu_ns: int = 0
    encoder_cpu_ns: int = 0
    exporter_cpu_ns: int = 0
    hooks_ratio: float = 0.0
    encoder_ratio: float = 0.0
    exporter_ratio: float = 0.0


class CostMeter:
    """Turns counts into costs; fed by the background thread, read by any.

    Args:
        now_ns: A monotonic clock.
        price: What one span of a hook costs, in nanoseconds of CPU time.
    """

    def __init__(self, now_ns: Callable[[], int], price: Callable[[], int] | None = None) -> None:
        self._now_ns = now_ns
        self._price = price or span_cpu_ns
        self._priced_ns: int | None = None
        self._hook_ns = 0  # of one span
        self._window_ns = now_ns()
        self._before = (0, 0, 0)
        self._cost = OwnCost()

    def read(self) -> OwnCost:
        """Return the cost as of the last update."""
        return self._cost

    def update(self, counts: ExportCounts, queued: int) -> None:
        """Take the counts so far; now and then look up what a span costs."""
        now_ns, made = self._now_ns(), counts.sent + counts.dropped + queued
        due = self._priced_ns is None or now_ns - self._priced_ns >= PRICED_FOR_NS
        if due and made:
            self._priced_ns, self._hook_ns = now_ns, self._price()
        encoder_ns = counts.encode_cpu_ns
        totals = (made * self._hook_ns, encoder_ns, counts.export_cpu_ns - encoder_ns)
        ratios = (self._cost.hooks_ratio, self._cost.encoder_ratio, self._cost.exporter_ratio)
        passed_ns = now_ns - self._window_ns
        if passed_ns >= WINDOW_NS:
            spent = zip(totals, self._before, strict=True)
            hooks, encoder, exporter = (max(now - was, 0) / passed_ns for now, was in spent)
            ratios = (hooks, encoder, exporter)
            self._window_ns, self._before = now_ns, totals
        self._cost = OwnCost(
            hooks_cpu_ns=totals[0],
            encoder_cpu_ns=totals[1],
            exporter_cpu_ns=totals[2],
            hooks_ratio=ratios[0],
            encoder_ratio=ratios[1],
            exporter_ratio=ratios[2],
        )


def span_cpu_ns() -> int:
    """Measure what a hook's timed call costs here and now, by some that go nowhere."""
    recorder = Recorder(RecordingProvider().get_tracer("latencytrace"), raise_fault)
    patch = Patch("latencytrace", "nothing", Stage.OTHER)
    call = timed(_nothing, beginning(_nothing, patch, recorder))
    stretches = []
    for _ in range(_STRETCHES):
        began_ns = cpu_ns()
        for _ in range(_CALLS):
            call()
        stretches.append(cpu_ns() - began_ns)
        time.sleep(_YIELD_S)  # who wants the interpreter gets it
    return min(stretches) // _CALLS


def _nothing() -> None:
    """Stand for what a hook times."""
