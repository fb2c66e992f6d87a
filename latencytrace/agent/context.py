"""Leaves OpenTelemetry's current context without complaint, and calls in another one."""

from collections.abc import Callable
from contextvars import Token
from typing import Any

from opentelemetry.context import Context, attach


def leave(token: Token[Context]) -> None:
    """Make the context before an `attach` current again.

    In another task or thread than it was attached in, as when a generator is dropped
    half-way, nothing is there to be restored. OpenTelemetry's `detach` would log an
    error with a traceback, which tells the program's authors nothing they could mend.
    """
    try:
        token.var.reset(token)
    except ValueError:
        return


def call_in(context: Context, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever it returns
    """Call with another context current, such as that of who asked for the call."""
    token = attach(context)
    try:
        return call(*args, **kwargs)
    finally:
        leave(token)
