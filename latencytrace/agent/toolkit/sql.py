"""Statements of SQL databases: which of them search by vectors, and what is noted of each."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from latencytrace.agent.timing.hook import Arguments, HookAttributes, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import named_arguments
from latencytrace.agent.toolkit.calls import Build
from latencytrace.agent.toolkit.database_calls import (
    THEIRS,
    DatabaseCall,
    Read,
    timed_database_calls,
)
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

# Operators of pgvector; functions of sqlite-vec, DuckDB, MySQL and MariaDB.
_VECTORS: Final = re.compile(
    r"<(?:->|=>|#>|\+>|~>|%>)|\b(?:vec_distance\w*|array_\w*distance|vector_distance\w*"
    r"|list_cosine_\w+|distance)\s*\(|\bmatch\b",
    re.IGNORECASE,
)
_COMMENTS: Final = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_TABLE: Final = re.compile(r"\b(?:from|into|update|join|table)\s+([\w.\"`\[\]]+)", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Za-z]+")
_LITERALS: Final = re.compile(r"'(?:[^']|'')*'?|\$(\w*)\$.*?\$\1\$", re.DOTALL)
_FIRST: Final = "statement"  # the first argument, if its name does not matter
_LONGEST: Final = 10_000  # characters that are looked at


class Summary(NamedTuple):
    """A statement without anything of its values."""

    stage: Stage
    operation: str  # its first word
    table: str  # the first that it names; empty: none


def summary_of(statement: str) -> Summary:
    read = statement[:_LONGEST]
    has_literals = "'" in read or "$" in read  # to look for them costs more than to ask
    return _summary_of(_LITERALS.sub("?", read) if has_literals else read)


@lru_cache(maxsize=512)
def _summary_of(statement: str) -> Summary:
    """Read a statement without its values: it is remembered."""
    text = _COMMENTS.sub(" ", statement)
    word, table = _WORD.search(text), _TABLE.search(text)
    return Summary(
        Stage.RETRIEVE if _VECTORS.search(text) else Stage.DATABASE,
        word.group().upper() if word else "",
        table.group(1).strip('"`[]') if table else "",
    )


def timed_statements(
    system: str | Callable[[Arguments], str],
    argument: str | Callable[[Arguments], object] | None = None,
    is_theirs: Callable[[Arguments], bool] = lambda _: False,
) -> Build:
    """Build what times a method that executes a statement for a request, sync or async.

    Args:
        system: The value of `db.system.name`, or how it is found.
        argument: The one with the statement, or how that is found; None: the first, whatever its
            name.
        is_theirs: Tells whether another instrumentation has a span of a call that is not current.
    """

    def reading(original: Timed) -> Read:
        arguments_of = _first_argument if argument is None else named_arguments(original)

        def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> DatabaseCall:
            arguments = arguments_of(args, kwargs)
            if is_theirs(arguments):
                return THEIRS
            found = argument(arguments) if callable(argument) else arguments[argument or _FIRST]
            stage, operation, table = summary_of(_text_of(found, args[0]))
            noted: HookAttributes = {
                semconv.DB_SYSTEM_NAME: system if isinstance(system, str) else system(arguments),
                semconv.DB_OPERATION_NAME: operation,
            }
            if table:
                noted[semconv.DB_COLLECTION_NAME] = table
            return DatabaseCall(f"{operation} {table}".strip(), stage, noted)

        return read

    return timed_database_calls(reading)


def timed_subclass(build: Build, recorder: Recorder, kind: Any, methods: Iterable[str]) -> Any:
    """Make a subclass whose statements are timed, of a type in C that cannot be patched.

    Args:
        build: Of `timed_statements`; it takes the first argument.
        methods: Names of the methods that execute statements.
    """

    def method(name: str) -> Timed:
        def original(self: object, *args: object, **kwargs: object) -> Any:
            return getattr(super(made, self), name)(*args, **kwargs)

        original.__name__, original.__doc__ = name, getattr(kind, name).__doc__
        return build(recorder, original)

    made: Any = type(kind.__name__, (kind,), {"__module__": kind.__module__})
    for name in methods:
        setattr(made, name, method(name))
    return made


def _first_argument(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    return {_FIRST: args[1] if len(args) > 1 else next(iter(kwargs.values()))}


def _text_of(statement: Any, cursor: object) -> str:
    if isinstance(statement, bytes):
        return statement.decode("utf-8", "replace")
    composed = getattr(statement, "as_string", None)
    return str(composed(cursor) if callable(composed) else statement)
