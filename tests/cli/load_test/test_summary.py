"""Exact quantiles, honest rates and the knee."""

import statistics
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.cli.load_test.answer import Answer, Shape
from latencytrace.cli.load_test.outcome import NEVER_SENT, TIMEOUT, Outcome, limits
from latencytrace.cli.load_test.plan import NS_PER_S, Step
from latencytrace.cli.load_test.record import StepRecord
from latencytrace.cli.load_test.summary import (
    RateSummary,
    best_goodput,
    distribution,
    knee,
    rate_of,
    summary,
)
from latencytrace.errors import SettingsError

MS = 1_000_000
VALUES = st.lists(st.integers(0, 10**12), min_size=2, max_size=200)


def outcome(
    due_ns: int, duration_ns: int, *, error: str | None = None, answer: Answer | None = None
) -> Outcome:
    return Outcome(
        trace_id=None,
        span_id=None,
        warm_up=False,
        held_back=False,
        due_ns=due_ns,
        sent_ns=None if error == NEVER_SENT else due_ns,
        first_byte_ns=None,
        end_ns=due_ns + duration_ns,
        status=None,
        error=error,
        answer=answer,
    )


def record(rate_per_s: float, *outcomes: Outcome) -> StepRecord:
    step = Step(rate_per_s=rate_per_s, warm_up_due_ns=(), due_ns=(0,), length_ns=1)
    return StepRecord(step=step, began_ns=0, outcomes=list(outcomes), elapsed_ns=NS_PER_S)


def rate(rate_per_s: float, *, capacity_per_s: float = 1e9, latency_ns: int = MS) -> RateSummary:
    """A server that answers one request after the other, 200 of them evenly spaced."""
    waiting = _waiting(rate_per_s, capacity_per_s=capacity_per_s)
    return summary(
        record(rate_per_s, *(replace(one, end_ns=one.end_ns + latency_ns) for one in waiting))
    )


@given(VALUES)
def test_quantiles_are_exact(values: list[int]) -> None:
    found = distribution(values)

    cuts = statistics.quantiles(values, n=100, method="inclusive")
    assert found is not None
    assert found.max == max(values)
    for printed, exact in zip(
        (found.p50, found.p90, found.p95, found.p99),
        (cuts[49], cuts[89], cuts[94], cuts[98]),
        strict=True,
    ):
        assert printed == pytest.approx(exact, abs=1, rel=1e-9)


def test_the_quantiles_of_nothing_are_unknown() -> None:
    assert distribution([]) is None
    assert distribution([None]) is None


@given(st.floats(0.5, 500), st.integers(0, 100 * NS_PER_S))
def test_a_constant_latency_takes_nothing_from_the_achieved_rate(
    rate_per_s: float, latency_ns: int
) -> None:
    found = rate(rate_per_s, latency_ns=latency_ns)

    assert found.offered_per_s == pytest.approx(rate_per_s, rel=1e-3)
    assert found.achieved_per_s == pytest.approx(rate_per_s, rel=1e-3)


def test_an_overloaded_server_achieves_its_capacity() -> None:
    assert rate(100, capacity_per_s=60).achieved_per_s == pytest.approx(60, rel=0.01)


def test_one_straggler_does_not_lower_the_rate() -> None:
    ends_ns = [index * 10 * MS for index in range(100)]

    assert rate_of([*ends_ns, 60 * NS_PER_S]) == pytest.approx(100, rel=0.02)


def test_timeouts_count_as_slow_and_refusals_only_as_errors() -> None:
    found = summary(
        record(
            1,
            outcome(0, 10 * MS),
            outcome(1, 500 * MS, error=TIMEOUT),
            outcome(2, 500 * MS, error=NEVER_SENT),
            outcome(3, 1, error="http 503"),
        )
    )

    assert found.duration_ns is not None
    assert found.duration_ns.p50 == 500 * MS
    assert found.errors == {"timeout": 1, "never sent": 1, "http 503": 1}
    assert (found.requests, found.succeeded) == (4, 1)


def test_time_per_output_token_leaves_the_first_one_out() -> None:
    answer = Answer(
        shape=Shape.OPENAI, token_times_ns=[100, 110, 140], reported_tokens=5, error=None
    )

    found = outcome(40, 200, answer=answer)

    assert found.time_to_first_token_ns == 60
    assert found.time_per_output_token_ns == 10  # (140 - 100) / (5 - 1)
    assert found.token_gaps_ns == (10, 30)


def test_the_knee_is_the_last_rate_before_answers_fall_behind() -> None:
    found = knee([rate(each, capacity_per_s=55) for each in (80, 20, 40, 160)])

    assert found is not None
    assert (found.rate_per_s, found.broken_at_per_s) == (40, 80)
    assert "of the rate offered" in (found.rule or "")


def test_the_knee_is_the_last_rate_before_latency_doubles() -> None:
    found = knee([rate(10), rate(20, latency_ns=15 * MS // 10), rate(40, latency_ns=3 * MS)])

    assert found is not None
    assert (found.rate_per_s, found.broken_at_per_s) == (20, 40)
    assert found.rule == "had a p95 3.0 times that of the lowest rate, not below 2"


def test_a_server_that_keeps_up_has_no_knee_yet() -> None:
    found = knee([rate(10), rate(20)])

    assert found is not None
    assert (found.rate_per_s, found.broken_at_per_s, found.rule) == (20, None, None)


def test_a_server_may_be_past_its_knee_at_once() -> None:
    found = knee([rate(40, capacity_per_s=10), rate(80, capacity_per_s=10)])

    assert found is not None
    assert (found.rate_per_s, found.broken_at_per_s) == (None, 40)


def test_one_rate_has_no_knee() -> None:
    assert knee([rate(10)]) is None


def test_goodput_is_what_was_offered_and_met_all_limits() -> None:
    step = record(
        10,
        *(outcome(place * 100 * MS, 50 * MS) for place in range(40)),
        *(outcome(place * 100 * MS, 300 * MS) for place in range(40, 70)),
        *(outcome(place * 100 * MS, 2 * MS, error="http 500") for place in range(70, 100)),
    )

    found = summary(step, limits("100ms", None, None))

    assert found.good_ratio == pytest.approx(0.4)
    assert found.goodput_per_s == pytest.approx(4.0)
    assert summary(step).goodput_per_s is None


def test_a_limit_on_tokens_holds_for_answers_that_have_them() -> None:
    streamed = Answer(
        shape=Shape.OPENAI,
        token_times_ns=(60 * MS, 80 * MS, 100 * MS),
        reported_tokens=None,
        error=None,
    )
    step = record(10, outcome(0, 100 * MS, answer=streamed), outcome(0, 100 * MS))

    for first, each, good in (
        (None, "20ms", 1.0),
        (None, "19ms", 0.5),
        ("60ms", None, 1.0),
        ("59ms", "20ms", 0.5),
    ):
        assert summary(step, limits(None, first, each)).good_ratio == good


def test_the_best_goodput_is_not_at_the_highest_rate() -> None:
    wanted = limits("50ms", None, None)
    rates = [
        summary(record(per_s, *_waiting(per_s, capacity_per_s=20)), wanted)
        for per_s in (10.0, 18.0, 40.0)
    ]

    best = best_goodput(rates)

    assert best is not None
    assert best.rate_per_s == 18.0
    assert best_goodput([summary(record(1, outcome(0, MS)))]) is None


def _waiting(rate_per_s: float, *, capacity_per_s: float) -> Iterator[Outcome]:
    """Evenly spaced requests to a server that answers one after the other."""
    free_ns = 0.0
    for index in range(200):
        due_ns = index * NS_PER_S / rate_per_s
        free_ns = max(free_ns, due_ns) + NS_PER_S / capacity_per_s
        yield outcome(round(due_ns), round(free_ns - due_ns))


@pytest.mark.parametrize("text", ["2", "fast", "-1s", ""])
def test_a_limit_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="--first-token-within 2s"):
        limits(None, text, None)
