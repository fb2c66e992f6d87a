"""The compiled core, if there is one, and the decorator of what it has a quicker form of."""

import os
from collections.abc import Callable
from contextvars import ContextVar
from functools import update_wrapper
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from opentelemetry.context import (
    _RUNTIME_CONTEXT,  # whose variable the core reads and sets
    Context,
)
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # where a context holds its span
)

F = TypeVar("F", bound=Callable[..., Any])


def _bound() -> Any:  # noqa: ANN401 - a module in C
    """Return the core with OpenTelemetry's context bound; None: there is none to be used."""
    if os.environ.get("LATENCYTRACE_COMPILED", "").strip() == "0":  # noqa: TID251 - decided once, as modules load
        return None
    variable = getattr(_RUNTIME_CONTEXT, "_current_context", None)
    if not isinstance(variable, ContextVar):
        return None
    try:
        from latencytrace.agent.compiled import _core  # type: ignore[attr-defined] # noqa: PLC0415 - may be absent
    except ImportError:
        return None
    if is_older(Path(_core.__file__)):
        return None
    try:
        _core.bind_context(variable, _SPAN_KEY, Context)
    except ImportError:  # another interpreter of this process has it
        return None
    return _core


def is_older(built: Path) -> bool:
    """Tell whether a core is older than its sources, which are beside it in a checkout alone.

    What it knows of our classes may be wrong then; `pip install -e .` compiles it anew.
    """
    at_ns = built.stat().st_mtime_ns
    sources = (*built.parent.glob("*.c"), *built.parent.glob("*.h"))
    return any(source.stat().st_mtime_ns > at_ns for source in sources)


core: Final[Any] = _bound()


def quicker(name: str, *state: object) -> Callable[[F], F]:
    """Return a decorator that puts the core's form in the place of a function, if there is one.

    Args:
        name: Of the core's function that makes it.
        state: What that function wants to know besides.
    """

    def replaced(function: F) -> F:
        if core is None:
            return function
        make = getattr(core, name)
        made = make(function, *state) if state else make(function)
        return cast("F", update_wrapper(made, function))

    return replaced
