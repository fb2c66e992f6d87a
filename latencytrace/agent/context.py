"""Enters and leaves OpenTelemetry's current context without complaint; calls in another one."""

from collections.abc import Callable
from contextvars import Context as VariableContext
from contextvars import ContextVar, Token
from typing import Any

from opentelemetry.context import (
    _RUNTIME_CONTEXT,  # whose `attach` sets this variable, two calls deep
    Context,
    attach,
    get_current,
)

from latencytrace.agent.guard import FAULTS, edge_faults

_variable = getattr(_RUNTIME_CONTEXT, "_current_context", None)
enter: Callable[[Context], Token[Context]] = (
    _variable.set if isinstance(_variable, ContextVar) else attach
)
current: Callable[[], Context] = (
    _variable.get if isinstance(_variable, ContextVar) else get_current
)


def context_in(variables: VariableContext) -> Context | None:
    """OpenTelemetry's context among all variables of somebody; None: we cannot know it."""
    if not isinstance(_variable, ContextVar):
        return None
    found = variables.get(_variable)
    return found if isinstance(found, Context) else Context()


def leave(token: Token[Context]) -> None:
    """Make the context before an `enter` current again.

    In another task or thread than it was entered in, as when a generator is dropped
    half-way, nothing is there to be restored. OpenTelemetry's `detach` would log an
    error with a traceback, which tells the program's authors nothing they could mend.
    """
    try:
        token.var.reset(token)
    except ValueError:
        return


def call_in(context: Context, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever it returns
    """Call with another context current, such as that of who asked for the call."""
    token = enter(context)
    try:
        return call(*args, **kwargs)
    finally:
        try:
            leave(token)
        except FAULTS as fault:
            edge_faults("leaving a context", fault)
