"""Reads every GPU at an interval, in one thread, and hands the samples on."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from latencytrace.agent.gpu.reader import Detail, GpuReader
from latencytrace.agent.guard import OnFault, guarded
from latencytrace.agent.process.background import BackgroundThread, background_thread, join
from latencytrace.errors import GpuUnavailableError
from latencytrace.model.gpu import GpuDevice, GpuSample

SLOW_NS: Final = 20_000_000  # a tick that takes longer delays other users of the driver
STUCK_NS: Final = 1_000_000_000
MOST_SLOWER: Final = 32  # times the interval
_JUDGED: Final = 20  # ticks
_SLOW_OF_THEM: Final = 2  # more than these are more than 5 %, but for one accident
_CALM_TICKS: Final = 300  # without a slow one, before it is read more often again


class SamplingGrid:
    """The instants `start + k * interval`; one that is missed is left out, never caught up.

    Args:
        interval_ns: Between two ticks, as long as they are quick.
        start_ns: A monotonic instant.
    """

    def __init__(self, interval_ns: int, start_ns: int) -> None:
        self.missed = 0
        self.slower = 1  # how many times longer the interval is now
        self._interval_ns = interval_ns
        self._next_ns = start_ns
        self._costs: deque[int] = deque(maxlen=_JUDGED)
        self._calm = 0

    @property
    def next_ns(self) -> int:
        """Return when the next tick is due."""
        return self._next_ns

    @property
    def interval_ns(self) -> int:
        """Between two ticks now."""
        return self._interval_ns * self.slower

    def ticked(self, began_ns: int, ended_ns: int) -> None:
        """Note what a tick took, and find the next."""
        self._judge(ended_ns - began_ns)
        steps = max(1, (ended_ns - self._next_ns) // self.interval_ns + 1)
        self.missed += steps - 1
        self._next_ns += steps * self.interval_ns

    def _judge(self, cost_ns: int) -> None:
        self._costs.append(cost_ns)
        if cost_ns >= STUCK_NS:
            self._slow_down(MOST_SLOWER)
        elif sum(cost > SLOW_NS for cost in self._costs) > _SLOW_OF_THEM:
            self._slow_down(self.slower * 2)
        elif cost_ns > SLOW_NS:
            self._calm = 0
        else:
            self._calm += 1
            if self._calm >= _CALM_TICKS and self.slower > 1:
                self.slower //= 2
                self._calm = 0

    def _slow_down(self, slower: int) -> None:
        self.slower = min(slower, MOST_SLOWER)
        self._costs.clear()
        self._calm = 0


SLOW_AFTER_NS: Final = 1_000_000_000
RARE_AFTER_NS: Final = 10_000_000_000
_AGAIN_FIRST_NS: Final = 30_000_000_000  # after GPUs could not be read
_AGAIN_LAST_NS: Final = 600_000_000_000
_LOOK_AGAIN_NS: Final = 10_000_000_000  # while another process reads them

Take = Callable[[Sequence[GpuSample]], None]


class Lock(Protocol):
    """Lock of the one process that reads the GPUs of this machine."""

    def take(self) -> bool: ...

    def release(self) -> None:
        """Let others have it."""
        ...

    def forget(self) -> None:
        """In a forked child: leave it with the parent."""
        ...


@dataclass(slots=True)
class SamplerState:
    """State of the sampler, for reports on it."""

    why_not: str | None = "it has not begun"  # None: GPUs are read
    is_over: bool = False  # nothing will ever be read
    gpus: tuple[GpuDevice, ...] = ()
    ticks: int = 0
    tick_ns: int = 0  # what the last one took
    tick_since_ns: int | None = None  # one that has not ended yet, on the monotonic clock
    interval_ns: int = 0
    missed: int = 0  # ticks
    read_at_ns: int | None = None  # when the last sample came
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)


class GpuSampler:
    """One thread for all GPUs of all vendors, at most one a machine and user.

    Args:
        load: Makes a reader for each vendor; called on the sampling thread.
        take: Where samples go; called on the sampling thread.
        lock: Held by the one process that reads them.
        interval_ns: Between two ticks.
        now_ns: A monotonic clock.
    """

    def __init__(
        self,
        load: Callable[[], Sequence[GpuReader]],
        take: Take,
        *,
        lock: Lock,
        interval_ns: int,
        now_ns: Callable[[], int],
        on_fault: OnFault,
    ) -> None:
        self.state = SamplerState()
        self._load = load
        self._readers: tuple[GpuReader, ...] = ()
        self._take = take
        self._lock = lock
        self._interval_ns = interval_ns
        self._now_ns = now_ns
        self._on_fault = on_fault
        self._thread: BackgroundThread | None = None
        self._open: list[GpuReader]
        self._stopping: threading.Event
        self._begin_anew()

    def start(self) -> None:
        """Begin, on a thread of its own, unless it has begun in this process."""
        if self._thread is None:
            self._thread = background_thread(self._run, "latencytrace-gpu")

    def end(self) -> None:
        """End after what is under way, without waiting for it."""
        self._stopping.set()

    def stop(self, timeout_s: float) -> None:
        """End; a call that hangs is left behind, for nothing can end it."""
        self.end()
        join(self._thread, timeout_s)

    def reset_after_fork(self) -> None:
        """In a forked child: the library's state did not come along, nor the thread."""
        self._thread = None
        self._lock.forget()
        for reader in self._readers:
            reader.reset_after_fork()
        self.state = SamplerState()
        self._begin_anew()

    def step(self) -> int | None:
        """Do what is due now.

        Returns:
            When there is something to do again, on the monotonic clock; None: never.
        """
        now_ns = self._now_ns()
        if not self._open and not self._opened(now_ns):
            return None if self.state.is_over else self._again_ns
        if now_ns < self._grid.next_ns:
            return self._grid.next_ns
        self._tick(now_ns)
        return self._grid.next_ns if self._open else self._again_ns

    def close(self) -> None:
        """Give everything back."""
        for reader in self._open:
            reader.close()
        self._open = []
        self._lock.release()

    def _begin_anew(self) -> None:
        self._stopping = threading.Event()
        self._open = []
        self._again_ns = 0
        self._pause_ns = _AGAIN_FIRST_NS
        self._grid = SamplingGrid(self._interval_ns, 0)
        self._slow_ns = self._rare_ns = 0  # when that much is read again

    def _run(self) -> None:
        stopping = self._stopping
        while not stopping.is_set():
            due_ns: int | None = self._now_ns() + _LOOK_AGAIN_NS  # after a fault of ours
            with guarded("reading GPUs", self._on_fault):
                due_ns = self.step()
            if due_ns is None:
                break
            stopping.wait(max(0, due_ns - self._now_ns()) / 1e9)
        with guarded("closing GPUs", self._on_fault):
            self.close()

    def _opened(self, now_ns: int) -> bool:
        """Tell whether any GPU can be read, from now on."""
        if now_ns < self._again_ns:
            return False
        if not self._lock.take():
            self.state.why_not = "another process of this user reads them"
            self._again_ns = now_ns + _LOOK_AGAIN_NS
            return False
        self._readers = self._readers or tuple(self._load())
        found: list[GpuDevice] = []
        reasons, are_final = [], []
        self.state.tick_since_ns = now_ns
        for reader in self._readers:
            try:
                devices = reader.open()
            except GpuUnavailableError as error:
                reader.close()
                reasons.append(str(error))
                are_final.append(error.is_final)
                continue
            if devices:
                self._open.append(reader)
                found += devices
            else:
                reader.close()
                reasons.append("the driver shows no GPU to this process")
                are_final.append(False)
        self._count_errors()
        self.state.tick_since_ns = None
        self.state.gpus = tuple(found)
        if found:
            self._begin(self._now_ns())
        else:
            self._put_off(now_ns, "; ".join(reasons), is_over=all(are_final))
        return bool(found)

    def _begin(self, now_ns: int) -> None:
        self.state.why_not = None
        self._pause_ns = _AGAIN_FIRST_NS
        self._grid = SamplingGrid(self._interval_ns, now_ns)
        self._slow_ns = self._rare_ns = now_ns

    def _put_off(self, now_ns: int, reason: str, *, is_over: bool) -> None:
        self.state.why_not = reason
        self.state.is_over = is_over
        self._lock.release()
        self._again_ns = now_ns + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, _AGAIN_LAST_NS)

    def _tick(self, now_ns: int) -> None:
        detail = self._detail(now_ns)
        self.state.tick_since_ns = now_ns
        samples: list[GpuSample] = []
        for reader in list(self._open):
            try:
                samples += reader.read(detail)
            except GpuUnavailableError as error:
                reader.close()
                self._open.remove(reader)
                if not self._open:
                    self._put_off(now_ns, str(error), is_over=False)
        ended_ns = self._now_ns()
        self._grid.ticked(now_ns, ended_ns)
        self._count_errors()
        state = self.state
        state.tick_since_ns = None
        state.ticks += 1
        state.tick_ns = ended_ns - now_ns
        state.interval_ns, state.missed = self._grid.interval_ns, self._grid.missed
        if samples:
            state.read_at_ns = ended_ns
            state.gpus = tuple(sample.device for sample in samples)
            self._take(samples)

    def _detail(self, now_ns: int) -> Detail:
        if now_ns >= self._rare_ns:
            self._rare_ns = now_ns + RARE_AFTER_NS
            self._slow_ns = now_ns + SLOW_AFTER_NS
            return Detail.RARE
        if now_ns >= self._slow_ns:
            self._slow_ns = now_ns + SLOW_AFTER_NS
            return Detail.SLOW
        return Detail.FAST

    def _count_errors(self) -> None:
        errors: Counter[tuple[str, str]] = Counter()
        for reader in self._readers:
            errors.update(reader.errors)
        self.state.errors = errors
