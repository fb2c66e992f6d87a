"""One profile of this process: it begins at a step, and ends some steps or seconds later."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from latencytrace.agent.guard import OnFault, guarded
from latencytrace.model.profile import ProfileOrder

MAX_TRACE_IDS: Final = 64
LONGEST_STEP_S: Final = 60.0  # on a GPU, where a step that runs is not cut


class CapturePhase(StrEnum):
    """Phase of a capture."""

    ARMED = "waiting for a step"
    CAPTURING = "recording"
    CAPTURED = "recorded"
    GIVEN_UP = "given up"


class EndedBy(StrEnum):
    """Reason for which it ended."""

    STEPS = "steps"
    TIME = "time"
    FAULT = "an error"
    PROGRAM = "the program's own profiler"


class StepProfiler(Protocol):
    """A profiler of steps."""

    on_cuda: bool

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None: ...

    def let_go(self) -> None:
        """Be no longer in the way of others."""
        ...

    def is_capturing(self) -> bool:
        """Tell whether this thread captures a graph: nothing may begin or end then."""
        ...


@dataclass(slots=True)
class Captured:
    """Facts about a capture."""

    began_ns: int = 0  # on the monotonic clock
    ended_ns: int = 0
    held_ns: int = 0  # that the program stood still at its end
    steps: int = 0
    ended_by: EndedBy | None = None
    trace_ids: dict[int, None] = field(default_factory=dict)  # of the requests it saw, in order


class Capture:
    """Counts steps, whichever threads make them, and starts and stops the profiler there.

    Args:
        now_ns: A monotonic clock.
    """

    def __init__(
        self,
        order: ProfileOrder,
        profiler: StepProfiler,
        now_ns: Callable[[], int],
        on_fault: OnFault,
    ) -> None:
        self._order = order
        self._profiler = profiler
        self._now_ns = now_ns
        self._on_fault = on_fault
        self._lock = threading.Lock()
        self.phase = CapturePhase.ARMED
        self.captured = Captured()
        self.begun = threading.Event()
        self.over = threading.Event()

    def step(self, trace_ids: Iterable[int]) -> None:
        """A step begins, on the thread that makes it; the one before is over."""
        if not self._lock.acquire(blocking=False):  # another thread is at it
            return
        try:
            with guarded("profiling a step", self._on_fault):
                self._step(trace_ids)
        finally:
            self._lock.release()

    def held(self) -> threading.Lock:
        """As a context: nothing begins or ends meanwhile."""
        return self._lock

    def end_after_fork(self) -> None:
        """In a forked child: end what records here, unless the parent was about to end it."""
        if self._lock.acquire(blocking=False):
            self._stop(EndedBy.TIME)
        else:
            self._profiler.let_go()  # the thread that holds the lock is not in this process

    def cut(self) -> None:
        """End it where it is, from any thread: nothing may be capturing a graph."""
        with self._lock:
            self._stop(EndedBy.TIME)

    def interrupted(self) -> None:
        """End it before the program's own profiler begins."""
        with self._lock:
            self._stop(EndedBy.PROGRAM)

    def give_up(self) -> None:
        """End it, if it is not over, and forget it."""
        with self._lock:
            self._stop(EndedBy.TIME)
            self.phase = CapturePhase.GIVEN_UP

    def _step(self, trace_ids: Iterable[int]) -> None:
        if self.over.is_set() or self._profiler.is_capturing():
            return
        seen = self.captured
        if self.phase is CapturePhase.ARMED:
            self._start()
            seen.began_ns = self._now_ns()
            self.phase = CapturePhase.CAPTURING
            self.begun.set()
        else:
            seen.steps += 1
        for trace_id in trace_ids:
            if len(seen.trace_ids) < MAX_TRACE_IDS:
                seen.trace_ids[trace_id] = None
        if seen.steps >= self._order.steps:
            self._stop(EndedBy.STEPS)
        elif self._now_ns() - seen.began_ns >= self._order.seconds * 1e9:
            self._stop(EndedBy.TIME)

    def _start(self) -> None:
        try:
            self._profiler.start()
        except BaseException:
            self._stop(EndedBy.FAULT)
            raise

    def _stop(self, why: EndedBy) -> None:
        """End it once, under the lock."""
        if self.captured.ended_by is not None:
            return
        self.captured.ended_by = why
        was, self.phase = self.phase, CapturePhase.GIVEN_UP  # unless it ends well
        try:
            if was is CapturePhase.ARMED:
                self._profiler.let_go()
                return
            self.captured.ended_ns = self._now_ns()
            self._profiler.stop()
            self.captured.held_ns = self._now_ns() - self.captured.ended_ns
            self.phase = CapturePhase.CAPTURED
        finally:
            self.begun.set()
            self.over.set()
