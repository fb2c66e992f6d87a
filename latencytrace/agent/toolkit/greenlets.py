"""Carries the current span into greenlets, which begin with no variables of their own."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from opentelemetry.context import get_current

from latencytrace.agent.context import call_in, variables_with
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Timed
from latencytrace.agent.timing.recorder import Recorder


def carry_into_greenlet(recorder: Recorder, greenlet: Any) -> None:
    """Have a greenlet that has not begun yet begin with the current span, and nothing else."""
    with guarded("carrying a span into a greenlet", recorder.on_fault):
        context = get_current()
        if context and greenlet.gr_context is None:
            greenlet.gr_context = variables_with(context)


def carry_into_thread(_recorder: Recorder, original: Timed) -> Timed:
    """Give a function that a method hands to a thread the span that is current there."""

    @wraps(original)
    def hand_in(self: object, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        context = get_current()
        carried = (call_in, context) if context else ()
        return original(self, *carried, call, *args, **kwargs)

    return hand_in
