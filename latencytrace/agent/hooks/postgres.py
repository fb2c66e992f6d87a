"""Statements sent to PostgreSQL with `psycopg`, `psycopg2` and `asyncpg`."""

import importlib
from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any

from latencytrace.agent.timing.hook import Arguments, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.sql import timed_statements, timed_subclass

_psycopg_time = timed_statements("postgresql", "query")


class PsycopgHook(Hook):
    """Times what every cursor executes statements with; one of the server's has its own."""

    requires = ("psycopg >= 3.1",)
    patches = (
        *(
            Replacement("psycopg", f"{kind}.{method}", _psycopg_time)
            for kind in ("Cursor", "AsyncCursor")
            for method in ("execute", "executemany", "stream")
        ),
        Replacement("psycopg", "ServerCursor.execute", _psycopg_time),
        Replacement("psycopg", "AsyncServerCursor.execute", _psycopg_time),
    )


_METHODS = ("execute", "executemany")
_psycopg2_time = timed_statements("postgresql")


def time_connections(recorder: Recorder, original: Timed) -> Timed:
    """Have a connection's cursors made with a class that is timed."""
    types = importlib.import_module("psycopg2.extensions")
    kind_of = cache(lambda kind: timed_subclass(_psycopg2_time, recorder, kind, _METHODS))
    connection_of = cache(partial(_timed_connection, kind_of))

    @wraps(original)
    def connect(
        dsn: Any = None,
        connection_factory: Any = None,
        cursor_factory: Any = None,
        **kwargs: Any,
    ) -> Any:
        if connection_factory is None:  # one of the program's own may choose another cursor
            connection_factory, cursor_factory = types.connection, cursor_factory or types.cursor
        if isinstance(cursor_factory, type):
            cursor_factory = kind_of(cursor_factory)
        if isinstance(connection_factory, type):
            connection_factory = connection_of(connection_factory)
        return original(dsn, connection_factory, cursor_factory, **kwargs)

    return connect


def _timed_connection(kind_of: Callable[[Any], Any], kind: Any) -> Any:
    """Make a subclass of connections with timed cursors, whatever their factory."""

    def cursor(self: object, *args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("cursor_factory"), type):
            kwargs["cursor_factory"] = kind_of(kwargs["cursor_factory"])
        elif len(args) > 1 and isinstance(args[1], type):
            args = (args[0], kind_of(args[1]), *args[2:])
        return super(made, self).cursor(*args, **kwargs)

    made: Any = type(kind.__name__, (kind,), {"__module__": kind.__module__, "cursor": cursor})
    return made


class Psycopg2Hook(Hook):
    """Times the cursors of connections that are made from now on."""

    requires = ("psycopg2 >= 2.8", "psycopg2-binary >= 2.8")
    patches = (Replacement("psycopg2", "connect", time_connections),)


_CONNECTION = "asyncpg.connection"
_asyncpg_time = timed_statements("postgresql", "query")


def _prepared(arguments: Arguments) -> object:
    return getattr(arguments["self"], "_query")  # noqa: B009 - asyncpg's, without types


class AsyncpgHook(Hook):
    """Times what all ways of asking come down to; what is prepared is timed where it is run."""

    requires = ("asyncpg >= 0.27",)
    patches = (
        Replacement(_CONNECTION, "Connection._execute", _asyncpg_time),
        Replacement(_CONNECTION, "Connection.execute", _asyncpg_time),
        Replacement(_CONNECTION, "Connection._executemany", _asyncpg_time),
        Replacement(
            "asyncpg.prepared_stmt",
            "PreparedStatement._PreparedStatement__bind_execute",
            timed_statements("postgresql", _prepared),
        ),
    )
