"""Enters and leaves OpenTelemetry's current context without complaint; calls in another one.

Before 3.12, CPython may collect garbage in the middle of setting a variable of a context. A
finalizer that sets one then frees what is being read, and the process ends or, worse, goes on
with variables that are not found again (https://github.com/python/cpython/issues/148891). A copy
of the context, which shares what it holds, keeps that alive meanwhile, for a twentieth of a
span's cost.
"""

import sys
from collections.abc import Callable
from contextvars import Context as VariableContext
from contextvars import ContextVar, Token, copy_context
from typing import Any, Final

from opentelemetry.context import (
    _RUNTIME_CONTEXT,  # whose `attach` sets this variable, two calls deep
    Context,
    attach,
    get_current,
)

from latencytrace.agent.guard import FAULTS, edge_faults

_COLLECTS_WITHIN: Final = sys.version_info < (3, 12)  # setting a variable frees the old value
_variable = getattr(_RUNTIME_CONTEXT, "_current_context", None)
_set: Callable[[Context], Token[Context]] = (
    _variable.set if isinstance(_variable, ContextVar) else attach
)


def _set_held(context: Context) -> Token[Context]:
    _held = copy_context()
    return _set(context)


enter = _set_held if _COLLECTS_WITHIN else _set
current: Callable[[], Context] = (
    _variable.get if isinstance(_variable, ContextVar) else get_current
)


def context_in(variables: VariableContext) -> Context | None:
    """OpenTelemetry's context among all variables of a caller; None: unknown."""
    if not isinstance(_variable, ContextVar):
        return None
    found = variables.get(_variable)
    return found if isinstance(found, Context) else Context()


def variables_with(context: Context) -> VariableContext | None:
    """Return variables for code that begins with none, this context set; None: we cannot."""
    if not isinstance(_variable, ContextVar):
        return None
    variables = VariableContext()
    variables.run(_variable.set, context)
    return variables


def leave(token: Token[Context]) -> None:
    """Make the context before an `enter` current again.

    In another task or thread than it was entered in, as when a generator is dropped
    half-way, nothing is there to be restored. OpenTelemetry's `detach` would log an
    error with a traceback, which tells the program's authors nothing they could mend.
    """
    _held = copy_context() if _COLLECTS_WITHIN else None
    try:
        token.var.reset(token)
    except ValueError:
        return


def call_in(context: Context, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call with another context current, such as the caller's."""
    token: Token[Context] | None = None
    try:
        token = enter(context)
    except FAULTS as fault:
        edge_faults("entering a context", fault)
    try:
        return call(*args, **kwargs)
    finally:
        try:
            if token is not None:
                leave(token)
        except FAULTS as fault:
            edge_faults("leaving a context", fault)
