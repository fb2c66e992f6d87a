"""Calls of which the program says to their library that they carry no trace."""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from latencytrace.agent.guard import FAULTS
from latencytrace.agent.timing.hook import Arguments, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import named_arguments, timed_coroutine, timed_function
from latencytrace.agent.toolkit.calls import Build
from latencytrace.agent.toolkit.http.propagation import WITHHELD
from latencytrace.agent.toolkit.within import Within


def withholding(is_so: Callable[[Arguments], bool]) -> Build:
    """Build what sends no header of ours within some calls of a function, sync or async.

    Args:
        is_so: Tells by a call's arguments whether it is one.
    """

    def build(recorder: Recorder, original: Timed) -> Timed:
        arguments_of = named_arguments(original)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Within | None:
            try:
                return Within(WITHHELD) if is_so(arguments_of(args, kwargs)) else None
            except FAULTS as fault:
                recorder.on_fault("looking whether a call carries a trace", fault)
                return None

        of_kind = timed_coroutine if iscoroutinefunction(original) else timed_function
        return of_kind(original, begin)

    return build
