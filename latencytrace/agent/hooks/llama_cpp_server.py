"""`python -m llama_cpp.server`: the waits for its locks, for it serves one request at a time."""

from types import TracebackType
from typing import Any

from latencytrace.agent.timing.hook import Hook, Patch, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import beginning, timed
from latencytrace.model.stage import Stage

_SERVER = "llama_cpp.server.app"


class TimedLock:
    """A lock of the server's: waiting for it is queue time."""

    def __init__(self, recorder: Recorder, lock: Any) -> None:
        self._lock = lock
        self.__doc__ = lock.__doc__  # it looks like the lock that it stands for
        patch = Patch(_SERVER, "lock.acquire", Stage.QUEUE, name="queue", within=True)

        async def acquire() -> None:
            await lock.acquire()

        self.acquire = timed(acquire, beginning(acquire, patch, recorder))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


def timed_lock(recorder: Recorder, lock: Any) -> Any:
    return TimedLock(recorder, lock)


class LlamaCppServerHook(Hook):
    """Puts timed locks in the place of its two: one for the served request, one for the next."""

    requires = ("llama-cpp-python >= 0.3",)
    patches = (
        Replacement(_SERVER, "llama_outer_lock", timed_lock),
        Replacement(_SERVER, "llama_inner_lock", timed_lock),
    )
