"""Ends at which Python does nothing: `os._exit`, `os.exec…`, a signal that the process raises."""

import os
import signal
from functools import wraps
from pathlib import PurePath
from typing import Any, Final

from latencytrace.agent.process.forks import ends_at_once
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder

_FATAL: Final = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP}


def send_first(_: Recorder, original: Timed) -> Timed:
    """Send the spans that wait, and count those that no receiver takes.

    A program that is not there ends nothing: a search of `PATH` asks for several of those.
    """

    @wraps(original)
    def end(*args: Any, **kwargs: Any) -> Any:
        program = args[0] if args else None
        if isinstance(program, str | bytes | PurePath) and not os.path.exists(program):  # noqa: PTH110 - it never raises
            return original(*args, **kwargs)
        with ends_at_once():
            return original(*args, **kwargs)

    return end


def send_before_a_signal(_: Recorder, original: Timed) -> Timed:
    """Send likewise before a signal that ends the process, as uvicorn raises it at its end.

    It is raised where nothing has a handler of it: our own handler sends by itself.
    """

    @wraps(original)
    def raise_signal(number: int) -> None:
        if number in _FATAL and signal.getsignal(number) is signal.SIG_DFL:
            with ends_at_once():
                original(number)
        else:
            original(number)

    return raise_signal


class ExitsHook(Hook):
    """Patches the functions that all such ends come down to."""

    patches = (
        *(Replacement("os", name, send_first) for name in ("_exit", "execv", "execve")),
        Replacement("signal", "raise_signal", send_before_a_signal),
    )
