"""Watches objectives in a thread: counts what is divided, and evaluates it at a steady pace."""

import threading
from collections.abc import Callable, Iterable, Sequence

from latencytrace.model import Alert, Request
from latencytrace.service.evaluator import Evaluator
from latencytrace.service.objective_memory import ObjectiveMemory

PACE_S = 2.0  # between two evaluations


class Watch:
    """An evaluator that runs.

    Args:
        evaluator: What decides.
        memory: What it remembers by; closed at the end.
        tell: Told of the alerts that began or ended.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        memory: ObjectiveMemory,
        tell: Callable[[Sequence[Alert]], None],
    ) -> None:
        self._evaluator = evaluator
        self._memory = memory
        self._tell = tell
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latencytrace-watch", daemon=True)

    def count(self, requests: Iterable[Request]) -> None:
        """Count requests that were divided."""
        self._evaluator.count(requests)

    def start(self) -> None:
        """Begin to evaluate."""
        self._thread.start()

    def close(self) -> None:
        """Evaluate once more, so that nothing counted is forgotten, and stop."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._tell(self._evaluator.tick())
        self._memory.close()

    def _run(self) -> None:
        while not self._stopping.wait(PACE_S):
            self._tell(self._evaluator.tick())
