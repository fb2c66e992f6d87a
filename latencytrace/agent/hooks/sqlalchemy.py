"""Statements executed with SQLAlchemy, sync and async, whatever the driver, and its own work."""

from typing import Any, Final

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import current
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS, LIBRARY, RuntimeGaps
from latencytrace.agent.timing.wrapping import TimedCall, timed
from latencytrace.agent.toolkit.calls import Build
from latencytrace.agent.toolkit.database_calls import DatabaseCall, timed_database_calls
from latencytrace.agent.toolkit.sql import timed_statements
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_DEFAULT: Final = "sqlalchemy.engine.default"
_SESSION: Final = (
    "execute", "scalar", "scalars", "get", "get_one", "refresh", "merge",
    "flush", "commit", "rollback", "close",
)  # fmt: skip
_WORK: Final = (  # modules, classes and methods
    ("orm.session", "Session", _SESSION),
    ("ext.asyncio.session", "AsyncSession", _SESSION),
    ("engine.result", "ResultInternal", ("_allrows", "_only_one_row")),
    ("engine.base", "Connection", ("execute", "commit", "rollback", "close")),
)


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


class _Work:
    """A call of the library for a request: what no span of it explains is the library's own."""

    __slots__ = ("_gaps", "_started_ns")
    is_span = False

    def __init__(self, gaps: RuntimeGaps) -> None:
        self._gaps = gaps
        self._started_ns = monotonic_ns()

    def activate(self) -> None:
        """Change nothing: what is current stays so."""

    deactivate = activate

    def finish(self, _: object) -> None:
        """Note its time, whether it returned or raised."""
        self._gaps.in_library = False
        self._gaps.note(LIBRARY, self._started_ns, monotonic_ns())

    fail = finish


def time_work(recorder: Recorder, original: Timed) -> Timed:
    """Time the outermost calls of the library: many are made of others."""
    detail = recorder.detail

    def begin(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> TimedCall | None:
        gaps = current().get(GAPS)
        if not isinstance(gaps, RuntimeGaps) or gaps.in_library or not detail.gaps:
            return None
        gaps.in_library = True
        return _Work(gaps)

    return timed(original, begin)  # type: ignore[arg-type]  # no generator is among them


class SqlalchemyHook(Hook):
    """Times what every engine executes statements with, and the dialects that do so themselves.

    And what an application calls: a session's own work takes longer than many a statement.
    """

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
        *(
            Replacement(f"sqlalchemy.{module}", f"{kind}.{method}", time_work, optional=True)
            for module, kind, methods in _WORK
            for method in methods
        ),
    )
