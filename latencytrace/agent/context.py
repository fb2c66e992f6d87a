"""Leaves OpenTelemetry's current context without complaint, wherever that happens."""

from contextvars import Token

from opentelemetry.context import Context


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
