"""A statement's summary: its operation, its table, whether it searches by vectors, no value."""

import pytest
from opentelemetry.trace import use_span

from latencytrace.agent.budget.detail import WITHOUT_CHEAP_CALLS, Detail
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.sql import Summary, summary_of, timed_statements
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


def test_statements_that_are_cheap_have_no_span_where_cheap_calls_are_left_out() -> None:
    ended: list[RecordedSpan] = []
    provider, detail = RecordingProvider(), Detail()
    tracer = provider.get_tracer("latencytrace")
    provider.configure(ended.append, roots=detail.root)
    execute = timed_statements("sqlite")(
        Recorder(tracer, raise_fault, detail), lambda _, statement: statement
    )

    detail.set_step(WITHOUT_CHEAP_CALLS, frozenset({"SELECT cheap"}))
    with use_span(tracer.start_span("request"), end_on_exit=True):
        execute(None, "SELECT a FROM cheap")
        execute(None, "SELECT a FROM dear")

    assert [span.name for span in ended] == ["SELECT dear", "request"]
