"""The compiled core, if there is one, and the decorator of what it has a quicker form of."""

from collections.abc import Callable
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any, Final, TypeVar, cast

from opentelemetry.context import (
    _RUNTIME_CONTEXT,  # whose variable the core reads and sets
    Context,
)
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # where a context holds its span
)

from latencytrace.extensions.loading import extension

F = TypeVar("F", bound=Callable[..., Any])


def _bound() -> Any:
    """Return the core with OpenTelemetry's context bound; None: there is none to be used."""
    variable = getattr(_RUNTIME_CONTEXT, "_current_context", None)
    if not isinstance(variable, ContextVar):
        return None
    found: Any = extension("latencytrace.agent.compiled")
    if found is not None:
        try:
            found.bind_context(variable, _SPAN_KEY, Context)
        except ImportError:  # another interpreter of this process has it
            return None
    return found


core: Final[Any] = _bound()


def quicker(name: str, *state: object) -> Callable[[F], F]:
    """Return a decorator that puts the core's form in the place of a function, if there is one.

    Args:
        name: The core's function that makes it.
        state: What that function wants to know besides.
    """

    def replaced(function: F) -> F:
        if core is None:
            return function
        make = getattr(core, name)
        made = make(function, *state) if state else make(function)
        return cast("F", update_wrapper(made, function))

    return replaced
