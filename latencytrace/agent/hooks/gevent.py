"""Carries the current span into greenlets of gevent, and into its pools of threads."""

import importlib
from functools import partial, wraps
from typing import Any

from latencytrace.agent.timing.hook import UNDO, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.greenlets import carry_into_greenlet, carry_into_thread


def carry_into_raw(recorder: Recorder, original: Timed) -> Timed:
    """Give a raw greenlet the span that is current where it is spawned."""

    @wraps(original)
    def spawn_raw(*args: Any, **kwargs: Any) -> Any:
        greenlet = original(*args, **kwargs)
        carry_into_greenlet(recorder, greenlet)
        return greenlet

    return spawn_raw


def carry_into_all(recorder: Recorder, original: Timed) -> Timed:
    """Let any other greenlet, too: gevent itself calls back where one is spawned."""
    spawn_raw, carry = carry_into_raw(recorder, original), partial(carry_into_greenlet, recorder)
    kind = importlib.import_module("gevent.greenlet").Greenlet
    kind.add_spawn_callback(carry)
    setattr(spawn_raw, UNDO, partial(kind.remove_spawn_callback, carry))
    return spawn_raw


class GeventHook(Hook):
    """Patches the doors into greenlets, and that into threads which greenlets wait for."""

    requires = ("gevent >= 22.10",)
    patches = (
        Replacement("gevent.hub", "spawn_raw", carry_into_all, bare=True),
        Replacement("gevent", "spawn_raw", carry_into_raw, bare=True),
        Replacement("gevent.threadpool", "ThreadPool.spawn", carry_into_thread),
    )
