"""Statements executed with DuckDB, and relations where they are computed."""

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch, Replacement
from latencytrace.agent.toolkit.sql import timed_statements
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_COLLECTED = "fetchall fetchnumpy df fetchdf to_df arrow to_arrow_table fetch_arrow_table pl torch"
_time = timed_statements("duckdb")


def _describe(_: Arguments) -> HookAttributes:
    return {semconv.DB_SYSTEM_NAME: "duckdb"}


class DuckdbHook(Hook):
    """Times connections' statements; a relation, which is lazy, where its rows are asked for."""

    requires = ("duckdb >= 1.0",)
    patches = (
        Replacement("duckdb", "DuckDBPyConnection.execute", _time),
        Replacement("duckdb", "DuckDBPyConnection.executemany", _time),
        *(
            Patch(
                "duckdb",
                f"DuckDBPyRelation.{method}",
                Stage.DATABASE,
                _describe,
                part_of=(Stage.RETRIEVE,),
                optional=True,
                within=True,
            )
            for method in _COLLECTED.split()
        ),
    )
