"""Statements executed with SQLAlchemy, sync and async, whatever the driver."""

from typing import Any

from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.toolkit.calls import Build
from latencytrace.agent.toolkit.database_calls import DatabaseCall, timed_database_calls
from latencytrace.agent.toolkit.sql import timed_statements
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_DEFAULT = "sqlalchemy.engine.default"


def _system(arguments: Arguments) -> str:
    return str(getattr(arguments["self"], "name", ""))  # of the dialect


def _is_contribs(arguments: Arguments) -> bool:
    """Tell whether contrib has a span of a statement, which it makes by events."""
    return hasattr(arguments.get("context"), "_otel_span")


_time = timed_statements(_system, "statement", _is_contribs)


def _timed_end(operation: str) -> Build:
    """Build what times the end of a transaction, which the server is asked for without a text."""

    def read(args: tuple[Any, ...], _: dict[str, Any]) -> DatabaseCall:
        noted = {semconv.DB_SYSTEM_NAME: str(args[0].name), semconv.DB_OPERATION_NAME: operation}
        return DatabaseCall(operation, Stage.DATABASE, {**noted})

    return timed_database_calls(lambda _: read)


class SqlalchemyHook(Hook):
    """Times what every engine executes statements with, and the dialects that do so themselves."""

    requires = ("sqlalchemy >= 1.4",)
    patches = (
        Replacement(_DEFAULT, "DefaultDialect.do_execute", _time),
        Replacement(_DEFAULT, "DefaultDialect.do_executemany", _time),
        Replacement(_DEFAULT, "DefaultDialect.do_execute_no_params", _time),
        Replacement(_DEFAULT, "DefaultDialect.do_commit", _timed_end("COMMIT")),
        Replacement(_DEFAULT, "DefaultDialect.do_rollback", _timed_end("ROLLBACK")),
        *(
            Replacement(
                f"sqlalchemy.dialects.{module}", f"{dialect}.do_executemany", _time, optional=True
            )
            for module, dialect in (
                ("postgresql.psycopg2", "PGDialect_psycopg2"),
                ("mysql.mysqldb", "MySQLDialect_mysqldb"),
                ("mssql.pyodbc", "MSDialect_pyodbc"),
            )
        ),
    )
