"""Statements executed with asyncpg."""

from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.toolkit.sql import timed_statements

_CONNECTION = "asyncpg.connection"
_time = timed_statements("postgresql", "query")


def _prepared(arguments: Arguments) -> object:
    return getattr(arguments["self"], "_query")  # noqa: B009 - asyncpg's, without types


class AsyncpgHook(Hook):
    """Times what all ways of asking come down to; what is prepared is timed where it is run."""

    requires = ("asyncpg >= 0.27",)
    patches = (
        Replacement(_CONNECTION, "Connection._execute", _time),
        Replacement(_CONNECTION, "Connection.execute", _time),
        Replacement(_CONNECTION, "Connection._executemany", _time),
        Replacement(
            "asyncpg.prepared_stmt",
            "PreparedStatement._PreparedStatement__bind_execute",
            timed_statements("postgresql", _prepared),
        ),
    )
