"""Statements executed with Python's own `sqlite3`."""

import importlib
from functools import cache, wraps
from typing import Any

from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.sql import timed_statements

_METHODS = ("execute", "executemany", "executescript")
_FACTORY = 5  # its place among the arguments of `connect`


def _timed_kind(recorder: Recorder, kind: Any) -> Any:  # noqa: ANN401 - of connections or cursors
    """Make a subclass whose statements are timed: the types in C cannot be patched."""
    timed = timed_statements("sqlite", "sql")

    def method(name: str) -> Timed:
        def original(self: object, sql: str, *parameters: object) -> Any:  # noqa: ANN401
            return getattr(super(made, self), name)(sql, *parameters)

        original.__name__, original.__doc__ = name, getattr(kind, name).__doc__
        return timed(recorder, original)

    made: Any = type(kind.__name__, (kind,), {"__module__": kind.__module__})
    for name in _METHODS:
        setattr(made, name, method(name))
    return made


def time_connections(recorder: Recorder, original: Timed) -> Timed:
    """Time the statements of each connection and of its cursors."""
    library = importlib.import_module("sqlite3")
    kind_of = cache(lambda kind: _timed_kind(recorder, kind))

    @cache
    def connection_of(kind: Any) -> Any:  # noqa: ANN401
        made = kind_of(kind)

        def cursor(self: object, factory: Any = library.Cursor) -> Any:  # noqa: ANN401
            factory = kind_of(factory) if isinstance(factory, type) else factory
            return super(made, self).cursor(factory)

        made.cursor = cursor
        return made

    @wraps(original)
    def connect(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        kind = kwargs.get("factory", library.Connection)
        if len(args) <= _FACTORY and isinstance(kind, type):
            kwargs["factory"] = connection_of(kind)
        return original(*args, **kwargs)

    return connect


class SqliteHook(Hook):
    """Has every connection made with a class that is timed."""

    patches = (
        Replacement("sqlite3", "connect", time_connections),
        Replacement("sqlite3.dbapi2", "connect", time_connections),
    )
