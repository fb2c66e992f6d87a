"""Ends of a process at which Python does nothing: `os._exit`, and another program in its place."""

from functools import wraps
from typing import Any

from latencytrace.agent.process.forks import ends_at_once
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder


def send_first(_: Recorder, original: Timed) -> Timed:
    """Send what the process has recorded, and count what nobody takes."""

    @wraps(original)
    def end(*args: Any, **kwargs: Any) -> Any:
        ends_at_once()
        return original(*args, **kwargs)

    return end


class ExitsHook(Hook):
    """Patches the functions that all such ends come down to."""

    patches = tuple(Replacement("os", name, send_first) for name in ("_exit", "execv", "execve"))
