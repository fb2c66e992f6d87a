"""The times between tokens, from the span nearest the caller that tells them."""

import pytest

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.tokens.gaps import InterToken, inter_token, token_times
from latencytrace.model import AttributeValue, Span, Stage, Trace, semconv
from tests.support.builders.spans.trees import request, root, span

TIMES = semconv.TOKEN_TIMES


def decode(name: str, packed: AttributeValue, start_ns: int = 0, end_ns: int = 10_000) -> Span:
    return span(name, start_ns, end_ns, stage=Stage.DECODE, attributes={TIMES: packed})


def gaps(trace: Trace) -> InterToken | None:
    return inter_token(token_times(trace))


def test_nothing_is_known_of_a_request_that_streams_nothing() -> None:
    assert gaps(request(span("search", 0, 9))) is None


def test_every_quantile_is_the_length_of_a_gap() -> None:
    packed = f"5;{','.join(map(str, range(1, 101)))}"

    assert gaps(request(decode("decode", packed), end_ns=10_000)) == InterToken(
        p50_ns=50, p99_ns=99, max_ns=100
    )


def test_the_times_at_which_tokens_left_count_before_those_at_which_they_were_made() -> None:
    made = decode("decode", "5;1,1,1")
    trace = build_traces([root(10_000, {TIMES: "9;7"}), made])[0]

    assert gaps(trace) == InterToken(p50_ns=7, p99_ns=7, max_ns=7)


def test_the_gaps_of_several_generations_are_taken_together() -> None:
    found = gaps(request(decode("one", "5;2,4"), decode("other", "5;9", start_ns=50)))

    assert found == InterToken(p50_ns=4, p99_ns=9, max_ns=9)


def test_gaps_told_together_count_where_their_buckets_are() -> None:
    found = gaps(request(decode("decode", "5;40,30x10,50;3x10"), end_ns=10_000))

    assert found == InterToken(p50_ns=3, p99_ns=50, max_ns=50)


def test_what_is_made_for_a_caller_that_has_gone_does_not_count() -> None:
    made = decode("decode", "5;20,30,40,500,600", end_ns=1_195)
    trace = build_traces([root(100), made])[0]

    assert gaps(trace) == InterToken(p50_ns=30, p99_ns=40, max_ns=40)


def test_gaps_told_together_of_a_stream_cut_short_count_by_their_mean() -> None:
    made = decode("decode", "5;20,60x6,40,70x7;7x1,2x5,2x7", end_ns=195)
    trace = build_traces([root(130), made])[0]

    assert gaps(trace) == InterToken(p50_ns=10, p99_ns=40, max_ns=40)


def test_a_caller_that_has_gone_before_the_second_token_saw_no_gap() -> None:
    trace = build_traces([root(24), decode("decode", "5;20,30", end_ns=55)])[0]

    assert gaps(trace) is None


@pytest.mark.parametrize("packed", ["", "5", "5;", "soon", 7, ("5;1",), True])
def test_what_cannot_be_read_is_unknown(packed: AttributeValue) -> None:
    assert gaps(request(decode("decode", packed))) is None
