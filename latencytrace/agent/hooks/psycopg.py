"""Statements executed with psycopg 3, sync and async."""

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.sql import timed_statements

_time = timed_statements("postgresql", "query")


class PsycopgHook(Hook):
    """Times what every cursor executes statements with; one of the server's has its own."""

    requires = ("psycopg >= 3.1",)
    patches = (
        *(
            Replacement("psycopg", f"{kind}.{method}", _time)
            for kind in ("Cursor", "AsyncCursor")
            for method in ("execute", "executemany", "stream")
        ),
        Replacement("psycopg", "ServerCursor.execute", _time),
        Replacement("psycopg", "AsyncServerCursor.execute", _time),
    )
