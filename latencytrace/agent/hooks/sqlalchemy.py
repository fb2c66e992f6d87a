"""Statements executed with SQLAlchemy, sync and async, whatever the driver."""

from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.toolkit.sql import timed_statements

_DEFAULT = "sqlalchemy.engine.default"


def _system(arguments: Arguments) -> str:
    return str(getattr(arguments["self"], "name", ""))  # of the dialect


_time = timed_statements(_system, "statement")


class SqlalchemyHook(Hook):
    """Times what every engine executes statements with, and the dialects that do so themselves."""

    requires = ("sqlalchemy >= 1.4",)
    patches = (
        Replacement(_DEFAULT, "DefaultDialect.do_execute", _time),
        Replacement(_DEFAULT, "DefaultDialect.do_executemany", _time),
        Replacement(_DEFAULT, "DefaultDialect.do_execute_no_params", _time),
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
