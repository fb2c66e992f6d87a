"""Carries the current span into greenlets, which begin with no variables, and pools of threads."""

import importlib
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from opentelemetry.context import get_current

from latencytrace.agent.context import call_in, variables_with
from latencytrace.agent.guard import guarded
from latencytrace.agent.start import paused
from latencytrace.agent.timing.hook import UNDO, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import Build


def _carry(recorder: Recorder, greenlet: Any) -> None:
    """Have a greenlet that has not begun yet begin with the current span, and nothing else."""
    with guarded("carrying a span into a greenlet", recorder.on_fault):
        context = get_current()
        if context and greenlet.gr_context is None:
            greenlet.gr_context = variables_with(context)


def _carry_into_made(greenlet_of: Callable[[tuple[Any, ...], Any], Any]) -> Build:
    """Give a greenlet the span that is current where a function makes it.

    Args:
        greenlet_of: From the arguments and the result of the function.
    """

    def build(recorder: Recorder, original: Timed) -> Timed:
        @wraps(original)
        def make(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            _carry(recorder, greenlet_of(args, made))
            return made

        return make

    return build


def _carry_into_thread(place: int) -> Build:
    """Give a function that is handed to a thread the span that is current there.

    Args:
        place: Of the function, among the arguments of what hands it in.
    """

    def build(_recorder: Recorder, original: Timed) -> Timed:
        @wraps(original)
        def hand_in(*args: Any, **kwargs: Any) -> Any:
            context = get_current()
            if context and len(args) > place:
                args = (*args[:place], call_in, context, *args[place:])
            return original(*args, **kwargs)

        return hand_in

    return build


_carry_into_raw = _carry_into_made(lambda _, greenlet: greenlet)


def _carry_into_all(recorder: Recorder, original: Timed) -> Timed:
    """Give any other greenlet the span, too: gevent itself calls back where one is spawned."""
    spawn_raw, carry = _carry_into_raw(recorder, original), partial(_carry, recorder)
    kind = importlib.import_module("gevent.greenlet").Greenlet
    kind.add_spawn_callback(carry)
    setattr(spawn_raw, UNDO, partial(kind.remove_spawn_callback, carry))
    return spawn_raw


class GeventHook(Hook):
    """Patches the doors into greenlets, and that into threads which greenlets wait for."""

    requires = ("gevent >= 22.10",)
    patches = (
        Replacement("gevent.hub", "spawn_raw", _carry_into_all, bare=True),
        Replacement("gevent", "spawn_raw", _carry_into_raw, bare=True),
        Replacement("gevent.threadpool", "ThreadPool.spawn", _carry_into_thread(1)),
    )


def _restart_around(_recorder: Recorder, original: Timed) -> Timed:
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
        Replacement("eventlet.patcher", "monkey_patch", _restart_around),
        Replacement("eventlet", "monkey_patch", _restart_around),
        Replacement(
            "eventlet.greenthread",
            "GreenThread.__init__",
            _carry_into_made(lambda args, _: args[0]),
        ),
        Replacement("eventlet.greenthread", "_spawn_n", _carry_into_made(lambda _, made: made[1])),
        Replacement("eventlet.tpool", "execute", _carry_into_thread(0)),
    )
