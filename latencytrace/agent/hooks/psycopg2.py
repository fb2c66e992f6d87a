"""Statements executed with psycopg2, whose own types are in C."""

import importlib
from functools import cache, wraps
from typing import Any

from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.sql import timed_statements, timed_subclass

_METHODS = ("execute", "executemany")
_time = timed_statements("postgresql")


def time_connections(recorder: Recorder, original: Timed) -> Timed:
    """Have a connection's cursors made with a class that is timed."""
    cursor = importlib.import_module("psycopg2.extensions").cursor
    kind_of = cache(lambda kind: timed_subclass(_time, recorder, kind, _METHODS))

    @wraps(original)
    def connect(
        dsn: Any = None,  # noqa: ANN401
        connection_factory: Any = None,  # noqa: ANN401
        cursor_factory: Any = None,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        if cursor_factory is None and connection_factory is None:
            cursor_factory = cursor  # a connection of the program's own may choose another
        if isinstance(cursor_factory, type):
            cursor_factory = kind_of(cursor_factory)
        return original(dsn, connection_factory, cursor_factory, **kwargs)

    return connect


class Psycopg2Hook(Hook):
    """Times the cursors of connections that are made from now on."""

    requires = ("psycopg2 >= 2.8", "psycopg2-binary >= 2.8")
    patches = (Replacement("psycopg2", "connect", time_connections),)
