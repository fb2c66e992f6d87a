"""Messages that a program takes itself: its work on one lasts until it asks for the next."""

import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import get_current_span

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import HookAttributes, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.queues.messages import begun_work


class Taken(NamedTuple):
    """A message as a consumer has taken it."""

    name: str  # of the work
    headers: Mapping[str, str]
    attributes: HookAttributes


class UnderWay:
    """The work on the message that was taken last."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._timing: Timing | None = None
        self._token: Token[UnderWay | None] | None = None  # None: nothing is under way

    def begin(self, taken: Taken | None) -> None:
        """Begin the work on a message, and make it current; None: there was none.

        Within a request it is the request that goes on with the message, as with an answer.
        """
        if taken is None or get_current_span().is_recording():
            return
        timing = begun_work(self._recorder, *taken, otherwise=Context())
        if timing is not None:
            timing.activate()
            self._timing = timing
            self._token = _latest.set(self)

    def end_here(self) -> None:
        """End it where it is current: the program asks another consumer in its place."""
        timing, token = self._timing, self._token
        if timing is None or token is None or get_current_span() is not timing.span:
            return
        try:
            _latest.reset(token)
        except ValueError:  # in a task that began within the work, and may outlive it
            return
        self.end()

    def end(self) -> None:
        """End it: the program asks for more, or is done."""
        timing, self._timing = self._timing, None
        self._token = None
        if timing is not None:
            timing.deactivate()
            with guarded("ending work", self._recorder.on_fault):
                timing.end()


_latest: ContextVar[UnderWay | None] = ContextVar("latest", default=None)


def end_latest(recorder: Recorder) -> None:
    """End the work that is current here, whichever consumer its message came from."""
    with guarded("ending work", recorder.on_fault):
        latest = _latest.get()
        if latest is not None:
            latest.end_here()


class Polling:
    """A kind of consumer: what it gives when it is asked for a message, and how it is closed.

    Args:
        read: Reads what it gave; None: no message, or several.
    """

    def __init__(self, read: Callable[[Any], Taken | None]) -> None:
        self._read = read
        self._of: weakref.WeakKeyDictionary[Any, UnderWay] = weakref.WeakKeyDictionary()
        self._inner: weakref.WeakSet[Any] = weakref.WeakSet()

    def leave_out(self, consumer: object) -> None:
        """Leave a consumer to the one around it, which asks it in a thread."""
        self._inner.add(consumer)

    def time(self, recorder: Recorder, original: Timed) -> Timed:
        """Build what asks for a message, sync or async."""

        def begin(consumer: Any, result: object) -> None:
            with guarded("beginning work", recorder.on_fault):
                if consumer not in self._inner:
                    self._work_of(consumer, recorder).begin(self._read(result))

        @wraps(original)
        def poll(self_: Any, *args: Any, **kwargs: Any) -> Any:
            self._end(recorder, self_)
            end_latest(recorder)
            result = original(self_, *args, **kwargs)
            begin(self_, result)
            return result

        @wraps(original)
        async def awaited(self_: Any, *args: Any, **kwargs: Any) -> Any:
            self._end(recorder, self_)
            end_latest(recorder)
            result = await original(self_, *args, **kwargs)
            begin(self_, result)
            return result

        return awaited if iscoroutinefunction(original) else poll

    def close(self, recorder: Recorder, original: Timed) -> Timed:
        """Build what closes a consumer, sync or async."""

        @wraps(original)
        def call(self_: Any, *args: Any, **kwargs: Any) -> Any:
            self._end(recorder, self_)
            return original(self_, *args, **kwargs)

        @wraps(original)
        async def awaited(self_: Any, *args: Any, **kwargs: Any) -> Any:
            self._end(recorder, self_)
            return await original(self_, *args, **kwargs)

        return awaited if iscoroutinefunction(original) else call

    def _work_of(self, consumer: Any, recorder: Recorder) -> UnderWay:
        found = self._of.get(consumer)
        if found is None:
            found = self._of[consumer] = UnderWay(recorder)
            weakref.finalize(consumer, found.end).atexit = False
        return found

    def _end(self, recorder: Recorder, consumer: Any) -> None:
        with guarded("ending work", recorder.on_fault):
            found = self._of.get(consumer)
            if found is not None:
                found.end()
