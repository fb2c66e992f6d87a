"""What runs beside a request is charged only for what the request waited for; truth in ms."""

from collections.abc import Mapping
from dataclasses import replace

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.model import Span, Stage, semconv
from latencytrace.model.request import ledger_of
from tests.support.builders.spans.trees import request, root, span


def ledger(*below: Span) -> Mapping[Stage, int]:
    """Of a request that took 100."""
    return ledger_of(critical_path(request(*below)))


SEARCH = span("search", 0, 20, stage=Stage.RETRIEVE)
PREFILL = span("prefill", 20, 40, stage=Stage.PREFILL)
DECODE = span("decode", 40, 100, stage=Stage.DECODE)


def test_a_log_that_outlives_the_answer_costs_nothing() -> None:
    log = span("log", 20, 130, stage=Stage.DATABASE)

    truth = {Stage.RETRIEVE: 20, Stage.PREFILL: 20, Stage.DECODE: 60}
    assert ledger(SEARCH, PREFILL, DECODE, log) == truth


def test_what_outlives_the_answer_is_charged_where_nothing_else_runs() -> None:
    decode = span("decode", 40, 105, stage=Stage.DECODE)  # its end is told after the answer's

    truth = {Stage.RETRIEVE: 20, Stage.PREFILL: 20, Stage.DECODE: 60}
    assert ledger(SEARCH, PREFILL, decode) == truth


def test_of_two_that_outlive_the_answer_the_later_start_is_charged() -> None:
    early = span("early", 10, 130, stage=Stage.DATABASE)
    late = span("late", 60, 110, stage=Stage.CACHE)

    truth = {Stage.UNATTRIBUTED: 10, Stage.DATABASE: 50, Stage.CACHE: 40}
    assert ledger(early, late) == truth


def test_what_outlives_its_caller_on_another_clock_may_have_been_awaited() -> None:
    call = replace(span("call", 20, 100), host="edge")
    served = replace(span("served", 20, 130, parent="call", stage=Stage.TOOL), host="gpu")
    beside = replace(span("beside", 20, 60, parent="call", stage=Stage.CACHE), host="edge")
    begun = replace(root(), host="edge")

    (trace,) = build_traces([begun, call, served, beside])

    assert ledger_of(critical_path(trace)) == {Stage.UNATTRIBUTED: 20, Stage.TOOL: 80}


def test_a_lease_beside_everything_costs_nothing_if_a_step_ends_after_it() -> None:
    lease = span("lease", 0, 95, stage=Stage.DATABASE)

    truth = {Stage.RETRIEVE: 20, Stage.PREFILL: 20, Stage.DECODE: 60}
    assert ledger(SEARCH, PREFILL, DECODE, lease) == truth


def test_a_lease_that_ends_last_is_charged_for_no_rule_can_know_better() -> None:
    decode = span("decode", 40, 90, stage=Stage.DECODE)
    lease = span("lease", 0, 95, stage=Stage.DATABASE)

    charged = {Stage.DATABASE: 95, Stage.UNATTRIBUTED: 5}
    assert ledger(SEARCH, PREFILL, decode, lease) == charged


def test_a_prefetch_that_nobody_awaits_costs_nothing() -> None:
    prefetch = span("prefetch", 5, 70, stage=Stage.CACHE)

    truth = {Stage.RETRIEVE: 20, Stage.PREFILL: 20, Stage.DECODE: 60}
    assert ledger(SEARCH, PREFILL, DECODE, prefetch) == truth


def test_moderation_beside_search_and_prefill_costs_nothing() -> None:
    moderation = span("moderate", 0, 35, stage=Stage.GUARDRAIL)

    truth = {Stage.RETRIEVE: 20, Stage.PREFILL: 20, Stage.DECODE: 60}
    assert ledger(SEARCH, PREFILL, DECODE, moderation) == truth


def test_moderation_that_prefill_waits_for_is_charged_all_the_wait() -> None:
    moderation = span("moderate", 0, 30, stage=Stage.GUARDRAIL)
    prefill = span("prefill", 30, 40, stage=Stage.PREFILL)

    truth = {Stage.GUARDRAIL: 30, Stage.PREFILL: 10, Stage.DECODE: 60}
    assert ledger(SEARCH, moderation, prefill, DECODE) == truth


def test_of_a_hedged_call_the_first_attempt_is_charged_until_the_second_and_this_wins() -> None:
    first = span("first", 0, 60, stage=Stage.RETRIEVE)
    second = span("second", 10, 30, stage=Stage.EMBED)  # of another stage, to tell them apart
    rerank = span("rerank", 30, 100, stage=Stage.RERANK)

    truth = {Stage.RETRIEVE: 10, Stage.EMBED: 20, Stage.RERANK: 70}
    assert ledger(first, second, rerank) == truth


def test_of_the_first_of_three_the_losers_that_run_on_cost_nothing() -> None:
    winner = span("winner", 0, 30, stage=Stage.RETRIEVE)
    loser = span("loser", 0, 80, stage=Stage.CACHE)
    last = span("last", 0, 99, stage=Stage.TOOL)
    rerank = span("rerank", 30, 100, stage=Stage.RERANK)

    truth = {Stage.RETRIEVE: 30, Stage.RERANK: 70}
    assert ledger(winner, loser, last, rerank) == truth


def test_of_overlapping_streams_each_is_charged_until_the_next_starts() -> None:
    search = span("search", 0, 20, stage=Stage.TOOL)
    passages = span("passages", 20, 60, stage=Stage.RETRIEVE)
    ranking = span("ranking", 30, 100, stage=Stage.RERANK)

    truth = {Stage.TOOL: 20, Stage.RETRIEVE: 10, Stage.RERANK: 70}
    assert ledger(search, passages, ranking) == truth


def test_of_three_overlapping_streams_the_middle_one_waits_for_the_end_of_the_first() -> None:
    passages = span("passages", 0, 40, stage=Stage.RETRIEVE)
    ranking = span("ranking", 10, 70, stage=Stage.RERANK)
    decode = span("decode", 60, 100, stage=Stage.DECODE)

    charged = {Stage.RETRIEVE: 40, Stage.RERANK: 20, Stage.DECODE: 40}
    assert ledger(passages, ranking, decode) == charged


def test_a_gap_is_attributed_by_what_the_child_that_fills_it_waited_for() -> None:
    agent = span("agent", 0, 90)
    plan = span("plan", 0, 25, parent="agent", stage=Stage.PREFILL)
    act = span("act", 25, 90, parent="agent", stage=Stage.TOOL)
    check = span("check", 50, 100, stage=Stage.GUARDRAIL)

    truth = {Stage.PREFILL: 25, Stage.TOOL: 25, Stage.GUARDRAIL: 50}
    assert ledger(agent, plan, act, check) == truth


def test_a_child_fills_every_gap_that_it_runs_beside() -> None:
    steady = span("steady", 0, 100, stage=Stage.DECODE)  # ends with the last tool: starts earlier
    tools = [span(f"tool {at}", at, at + 10, stage=Stage.TOOL) for at in (20, 50, 90)]

    truth = {Stage.DECODE: 70, Stage.TOOL: 30}
    assert ledger(steady, *tools) == truth


def test_intervals_win_over_what_fills_a_gap_too() -> None:
    steady = span(
        "steady", 0, 98, stage=Stage.DECODE, attributes={semconv.INTERVALS: "respond:10+20"}
    )
    tools = [span(f"tool {at}", at, at + 10, stage=Stage.TOOL) for at in (20, 90)]

    truth = {Stage.DECODE: 70, Stage.RESPOND: 10, Stage.TOOL: 20}
    assert ledger(steady, *tools) == truth


def test_a_child_that_takes_no_time_changes_nothing() -> None:
    mark = span("mark", 30, 30, stage=Stage.CACHE)

    assert ledger(SEARCH, PREFILL, DECODE, mark) == ledger(SEARCH, PREFILL, DECODE)
