"""Statements executed with Python's own `sqlite3`, also through aiosqlite."""

import importlib
from functools import cache, partial, wraps
from typing import Any

from latencytrace.agent.context import call_in, current
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.sql import timed_statements, timed_subclass

_METHODS = ("execute", "executemany", "executescript")
_time = timed_statements("sqlite")
_FACTORY = 5  # its place among the arguments of `connect`


def time_connections(recorder: Recorder, original: Timed) -> Timed:
    library = importlib.import_module("sqlite3")
    kind_of = cache(lambda kind: timed_subclass(_time, recorder, kind, _METHODS))

    @cache
    def connection_of(kind: Any) -> Any:
        made = kind_of(kind)

        def cursor(self: object, *args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], type):
                args = (kind_of(args[0]), *args[1:])
            elif isinstance(kwargs.get("factory"), type):
                kwargs["factory"] = kind_of(kwargs["factory"])
            elif not args and not kwargs and kind.cursor is library.Connection.cursor:
                args = (kind_of(library.Cursor),)
            return super(made, self).cursor(*args, **kwargs)

        made.cursor = cursor
        return made

    @wraps(original)
    def connect(*args: Any, **kwargs: Any) -> Any:
        kind = kwargs.get("factory", library.Connection)
        with guarded("timing a connection", recorder.on_fault):
            if len(args) <= _FACTORY and isinstance(kind, type):
                kwargs = {**kwargs, "factory": connection_of(kind)}
        return original(*args, **kwargs)

    return connect


def carry_context(recorder: Recorder, original: Timed) -> Timed:
    """Have a thread of aiosqlite's, which serves all requests, work for the one that asks."""

    @wraps(original)
    async def execute(self: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        with guarded("carrying a context", recorder.on_fault):
            function = partial(call_in, current(), function)
        return await original(self, function, *args, **kwargs)

    return execute


class SqliteHook(Hook):
    """Has every connection made with a class that is timed."""

    patches = (
        Replacement("sqlite3", "connect", time_connections),
        Replacement("sqlite3.dbapi2", "connect", time_connections),
        Replacement("aiosqlite.core", "Connection._execute", carry_context),
    )
