"""Watches objectives in a thread: counts requests, evaluates at a steady pace, notifies."""

import logging
import threading
from collections.abc import Callable, Iterable

from latencytrace.model import Alert
from latencytrace.service.alerting.amendments import Amendments
from latencytrace.service.alerting.outbox import Outbox
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.objectives.evaluator import Evaluator
from latencytrace.service.objectives.memory import ObjectiveMemory

PACE_S = 2.0  # between two evaluations
_log = logging.getLogger(__name__)

# Raised by a fault of our own functions.
_FAULTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError,
)  # fmt: skip


class Watch:
    """An evaluator that runs.

    Args:
        memory: Keeps its counts and alerts; closed at the end.
        amendments: Finds the alerts with another cause than was sent.
        changed: Takes the alerts that began or ended, before anybody is notified.
        reload: Looks whether the objectives are others now.
    """

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        evaluator: Evaluator,
        memory: ObjectiveMemory,
        outbox: Outbox,
        amendments: Amendments,
        *,
        changed: Callable[[Iterable[Alert]], None] = lambda _: None,
        reload: Callable[[], None] = lambda: None,
    ) -> None:
        self._evaluator = evaluator
        self._memory = memory
        self._outbox = outbox
        self._amendments = amendments
        self._changed = changed
        self._reload = reload
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latencytrace-watch", daemon=True)

    @property
    def is_running(self) -> bool:
        """Return whether objectives are being evaluated."""
        return self._thread.is_alive()

    def count(self, settled: Settled) -> None:
        """Count requests that have settled; a fault of ours must not stop the attribution."""
        try:
            self._evaluator.count(settled)
        except _FAULTS:
            _log.exception("requests were not counted for objectives: please report this")

    def start(self) -> None:
        """Begin to evaluate."""
        self._outbox.start()
        self._thread.start()

    def step(self) -> None:
        """Evaluate, keep that together with its notifications, then send those."""
        self._reload()
        changed = self._evaluator.tick()
        self._changed(changed)
        amended = self._amendments.due(self._evaluator.alerts())
        notifications = self._outbox.notifications(changed, amended)
        self._evaluator.keep(notifications)
        self._outbox.add(notifications)
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
