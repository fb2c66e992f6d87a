"""A statement's summary: its operation, its table, whether it searches by vectors, no value."""

import pytest

from latencytrace.agent.toolkit.sql import Summary, summary_of
from latencytrace.model import Stage


@pytest.mark.parametrize(
    ("statement", "summary"),
    [
        ("SELECT 1", Summary(Stage.DATABASE, "SELECT", "")),
        ("select a from t where b = 'x'", Summary(Stage.DATABASE, "SELECT", "t")),
        ('INSERT INTO "users" (a) VALUES (1)', Summary(Stage.DATABASE, "INSERT", "users")),
        ("UPDATE public.users SET a = 1", Summary(Stage.DATABASE, "UPDATE", "public.users")),
        ("/* of a page */ SELECT a FROM t", Summary(Stage.DATABASE, "SELECT", "t")),
        ("-- first\nDELETE FROM t", Summary(Stage.DATABASE, "DELETE", "t")),
        ("SELECT a FROM t WHERE b <> 3 AND c < -4", Summary(Stage.DATABASE, "SELECT", "t")),
        ("SELECT a FROM t ORDER BY e <-> $1 LIMIT 5", Summary(Stage.RETRIEVE, "SELECT", "t")),
        ("SELECT a FROM t ORDER BY e <=> %(q)s", Summary(Stage.RETRIEVE, "SELECT", "t")),
        ("SELECT vec_distance_cosine(a, ?) FROM t", Summary(Stage.RETRIEVE, "SELECT", "t")),
        ("SELECT rowid FROM t WHERE a MATCH ?", Summary(Stage.RETRIEVE, "SELECT", "t")),
        ("", Summary(Stage.DATABASE, "", "")),
    ],
)
def test_a_statement_is_summed_up(statement: str, summary: Summary) -> None:
    assert summary_of(statement) == summary
