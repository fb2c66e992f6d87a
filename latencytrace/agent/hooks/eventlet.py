"""Carries the current span into greenthreads of eventlet, and into its pool of threads."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from opentelemetry.context import get_current

from latencytrace.agent.context import call_in
from latencytrace.agent.start import paused
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.greenlets import carry_into_greenlet


def carry_into_made(recorder: Recorder, original: Timed) -> Timed:
    """Give a greenthread the span that is current where it is made."""

    @wraps(original)
    def __init__(self: object, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        carry_into_greenlet(recorder, self)

    return __init__


def carry_into_raw(recorder: Recorder, original: Timed) -> Timed:
    """Let a greenlet that returns nothing go on with the span, too."""

    @wraps(original)
    def _spawn_n(*args: Any, **kwargs: Any) -> Any:
        spawned = original(*args, **kwargs)
        carry_into_greenlet(recorder, spawned[1])
        return spawned

    return _spawn_n


def carry_into_pool(_recorder: Recorder, original: Timed) -> Timed:
    """Let a call in a thread go on with the span of the greenthread that waits for it."""

    @wraps(original)
    def execute(meth: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        context = get_current()
        carried = (call_in, context) if context else ()
        return original(*carried, meth, *args, **kwargs)

    return execute


def restart_around(_recorder: Recorder, original: Timed) -> Timed:
    """Have no thread of ours run while locks are replaced, which it may hold or wait for."""

    @wraps(original)
    def monkey_patch(*args: Any, **kwargs: Any) -> Any:
        with paused():
            return original(*args, **kwargs)

    return monkey_patch


class EventletHook(Hook):
    """Patches what makes greenthreads, and the door into threads."""

    requires = ("eventlet >= 0.33",)
    patches = (
        Replacement("eventlet.patcher", "monkey_patch", restart_around),
        Replacement("eventlet", "monkey_patch", restart_around),
        Replacement("eventlet.greenthread", "GreenThread.__init__", carry_into_made),
        Replacement("eventlet.greenthread", "_spawn_n", carry_into_raw),
        Replacement("eventlet.tpool", "execute", carry_into_pool),
    )
