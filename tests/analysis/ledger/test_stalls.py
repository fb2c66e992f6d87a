"""Long gaps between tokens, and what each was spent on."""

from dataclasses import replace

import pytest

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.ledger.stalls import Stall, stalls
from latencytrace.analysis.tokens.gaps import token_times
from latencytrace.model import Event, Interval, Span, Stage, pack_intervals, semconv
from tests.support.builders.spans.trees import root, span

MS = 1_000_000
# Ten tokens, 10 ms apart, but for 100 ms between the fifth and the sixth: from 60 ms to 160.
STALLED = f"{20 * MS};" + ",".join(
    str(length * MS) for length in (10, 10, 10, 10, 100, 10, 10, 10, 10)
)


def found(*below: Span, packed: str = STALLED, intervals: str = "") -> tuple[Stall, ...]:
    attributes = {semconv.TOKEN_TIMES: packed, semconv.INTERVALS: intervals}
    server = root(250 * MS, {key: value for key, value in attributes.items() if value})
    trace = build_traces([server, *below])[0]
    return stalls(trace, critical_path(trace), token_times(trace))


def decode(start_ms: int = 10, end_ms: int = 210) -> Span:
    return span("decode", start_ms * MS, end_ms * MS, stage=Stage.DECODE)


def spent_on(stage: Stage, start_ms: int, end_ms: int) -> str:
    interval = Interval(stage=stage, start_ns=start_ms * MS, end_ns=end_ms * MS)
    return pack_intervals([interval], 0)


def test_a_gap_that_nothing_explains_is_unknown() -> None:
    assert found(decode()) == (Stall(start_ns=60 * MS, duration_ns=100 * MS, label="unknown"),)


def test_an_even_stream_has_no_stall() -> None:
    assert found(decode(), packed=f"{20 * MS};" + ",".join([str(60 * MS)] * 3)) == ()


def test_a_gap_of_less_than_five_medians_is_no_stall() -> None:
    packed = f"{20 * MS};" + ",".join(str(length * MS) for length in (20, 20, 95, 20))

    assert found(decode(), packed=packed) == ()


def test_a_gap_that_nobody_notices_is_no_stall() -> None:
    packed = f"{20 * MS};" + ",".join(str(length * MS) for length in (1, 1, 45, 1))

    assert found(decode(), packed=packed) == ()


@pytest.mark.parametrize("stage", [Stage.RESPOND, Stage.RUNTIME, Stage.DETOKENIZE])
def test_a_stall_is_named_after_the_work_that_filled_it(stage: Stage) -> None:
    (stall,) = found(decode(), intervals=spent_on(stage, 70, 155))

    assert stall.label == stage


def test_a_prefill_in_the_middle_of_a_stream_is_its_stalls_label() -> None:
    prefill = span("prefill", 65 * MS, 155 * MS, stage=Stage.PREFILL)

    (stall,) = found(decode(10, 60), prefill, decode(155, 210))

    assert stall.label == "prefill"


def test_what_takes_less_than_half_of_what_is_too_long_is_no_reason() -> None:
    (stall,) = found(decode(), intervals=spent_on(Stage.RESPOND, 70, 110))

    assert stall.label == "unknown"


def test_work_beside_the_stall_is_no_reason() -> None:
    (stall,) = found(decode(), intervals=spent_on(Stage.RESPOND, 165, 205))

    assert stall.label == "unknown"


def test_an_engine_that_says_so_preempted() -> None:
    told = replace(decode(), events=(Event(time_ns=80 * MS, name="request.preempted"),))

    (stall,) = found(told, intervals=spent_on(Stage.RESPOND, 70, 155))

    assert stall.label == "preemption"


def test_a_stream_without_times_has_no_stalls() -> None:
    assert found(decode(), packed="") == ()
