"""Calls within which the context says something; they are no spans."""

from contextvars import Token

from opentelemetry.context import Context

from latencytrace.agent.context import current, enter, leave


class Within:
    """One such call.

    Args:
        key: What the context has while the call runs.
    """

    __slots__ = ("_key", "_token")

    def __init__(self, key: str) -> None:
        self._key = key
        self._token: Token[Context] | None = None

    def activate(self) -> None:
        """Say so from now on."""
        self._token = enter(Context({**current(), self._key: True}))

    def deactivate(self) -> None:
        """Say so no longer."""
        token, self._token = self._token, None
        if token is not None:
            leave(token)

    def finish(self, _: object) -> None:
        """Note nothing."""

    fail = finish
