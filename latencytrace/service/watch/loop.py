"""Watches objectives in a thread: counts what is divided, evaluates it at a steady pace, tells."""

import logging
import threading
from collections.abc import Callable, Iterable

from latencytrace.model import Alert
from latencytrace.service.alerting.outbox import Outbox
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.objectives.evaluator import Evaluator
from latencytrace.service.objectives.memory import ObjectiveMemory

PACE_S = 2.0  # between two evaluations
_log = logging.getLogger(__name__)

# What a broken promise between our own functions raises.
_FAULTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError,
)  # fmt: skip


class Watch:
    """An evaluator that runs.

    Args:
        evaluator: What decides.
        memory: What it remembers by; closed at the end.
        outbox: What tells sinks.
        changed: Takes the alerts that began or ended, before anybody is told.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        memory: ObjectiveMemory,
        outbox: Outbox,
        changed: Callable[[Iterable[Alert]], None] = lambda _: None,
    ) -> None:
        self._evaluator = evaluator
        self._memory = memory
        self._outbox = outbox
        self._changed = changed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latencytrace-watch", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether objectives are being evaluated."""
        return self._thread.is_alive()

    def count(self, settled: Settled) -> None:
        """Count requests that have settled; a fault of ours must not stop the dividing."""
        try:
            self._evaluator.count(settled)
        except _FAULTS:
            _log.exception("requests were not counted for objectives: please report this")

    def start(self) -> None:
        """Begin to evaluate."""
        self._outbox.start()
        self._thread.start()

    def step(self) -> None:
        """Evaluate, keep that together with what is to be told of it, then tell it."""
        changed = self._evaluator.tick()
        self._changed(changed)
        notices = self._outbox.notices(changed)
        self._evaluator.keep(notices)
        self._outbox.add(notices)
        self._outbox.repeat(self._evaluator.alerts())

    def close(self) -> None:
        """Evaluate once more, so that nothing counted is forgotten, and stop."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self.step()
        self._outbox.close()
        self._memory.close()

    def _run(self) -> None:
        while not self._stopping.wait(PACE_S):
            self.step()
