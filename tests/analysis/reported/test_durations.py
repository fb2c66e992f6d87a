"""What engines tell of the time inside their spans takes its place, and nobody else's."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import (
    AttributeValue,
    RepairKind,
    Request,
    Span,
    SpanKind,
    Stage,
    semconv,
)
from latencytrace.model.request import ledger_of
from tests.support.builders.spans.trees import root, span
from tests.support.work import growth

S = 1_000_000_000
QUEUE, PREFILL, DECODE = (
    semconv.LATENCY_IN_QUEUE,
    semconv.LATENCY_IN_PREFILL,
    semconv.LATENCY_IN_DECODE,
)
FIRST = semconv.LATENCY_TO_FIRST
TOLD = {FIRST: 4.0, QUEUE: 1.0, PREFILL: 2.0, DECODE: 5.0}


def vllm(
    told: Mapping[str, AttributeValue] | None = None,
    start_ns: int = 0,
    end_ns: int = 10 * S,
    name: str = "llm_request",
    parent: str | None = "root",
) -> Span:
    made = span(
        name, start_ns, end_ns, parent=parent, kind=SpanKind.SERVER, attributes=told or TOLD
    )
    return replace(made, name="llm_request", scope="vllm.tracing.otel")


def only(*below: Span, end_ns: int = 10 * S) -> Request:
    (request,) = requests_of([root(end_ns), *below], {})
    return request


def test_prefill_ends_with_the_first_token_and_the_others_lie_around_it() -> None:
    request = only(vllm())

    assert [(one.start_ns // S, one.end_ns // S, one.stage) for one in request.segments] == [
        (0, 1, Stage.UNATTRIBUTED),
        (1, 2, Stage.QUEUE),
        (2, 4, Stage.PREFILL),
        (4, 9, Stage.DECODE),
        (9, 10, Stage.UNATTRIBUTED),
    ]


@pytest.mark.parametrize(
    ("scope", "queue_s", "prefill_s", "decode_s"),
    [("vllm.tracing.otel", 1, 2, 5), ("trt.llm", 1, 3, 5), ("sglang server", None, None, None)],
    ids=["vLLM", "TensorRT-LLM", "SGLang, whose slices tell"],
)
def test_the_same_keys_mean_what_their_engine_means(
    scope: str, queue_s: int | None, prefill_s: int | None, decode_s: int | None
) -> None:
    told: dict[str, AttributeValue] = {**TOLD, semconv.LATENCY_E2E: 9.0}

    request = only(replace(vllm(told), scope=scope))

    stages_s = {stage: length_ns // S for stage, length_ns in request.ledger.items()}
    assert stages_s.get(Stage.QUEUE) == queue_s
    assert stages_s.get(Stage.PREFILL) == prefill_s
    assert stages_s.get(Stage.DECODE) == decode_s


def test_a_span_below_knows_better_what_its_time_was_for() -> None:
    request = only(vllm(), span("reload", 5 * S, 7 * S, parent="llm_request", stage=Stage.LOAD))

    assert request.ledger[Stage.LOAD] == 2 * S
    assert request.ledger[Stage.DECODE] == 3 * S
    assert request.ledger[Stage.PREFILL] == 2 * S


def test_a_span_below_that_explains_nothing_takes_nothing() -> None:
    request = only(vllm(), span("engine", 0, 10 * S, parent="llm_request", kind=SpanKind.SERVER))

    assert request.ledger[Stage.DECODE] == 5 * S


def test_packed_intervals_know_better_too() -> None:
    packed: dict[str, AttributeValue] = {**TOLD, semconv.INTERVALS: f"runtime:{5 * S}+{S}"}

    request = only(vllm(packed))

    assert request.ledger[Stage.RUNTIME] == S
    assert request.ledger[Stage.DECODE] == 4 * S


def test_times_are_counted_from_the_span_as_it_was_sent() -> None:
    sent = vllm(start_ns=-2 * S, end_ns=8 * S)

    request = only(sent, end_ns=8 * S)

    assert [repair.kind for repair in request.repairs] == [RepairKind.CLIPPED]
    assert request.ledger[Stage.PREFILL] == 2 * S
    assert Stage.QUEUE not in request.ledger
    assert request.time_to_first_token_ns == 2 * S


def test_without_the_first_token_the_parts_end_with_the_span() -> None:
    told = {key: value for key, value in TOLD.items() if key != FIRST}

    request = only(vllm(told))

    assert request.segments[0].stage is Stage.UNATTRIBUTED
    assert request.segments[0].end_ns == 2 * S
    assert request.segments[-1].stage is Stage.DECODE


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -0.5, 1e300, "2.0", True, (1.0,)])
def test_a_length_that_cannot_be_is_left_out_and_told(wrong: AttributeValue) -> None:
    request = only(vllm({**TOLD, PREFILL: wrong}))

    assert sum(request.ledger.values()) == request.duration_ns
    assert {repair.kind for repair in request.repairs} == {RepairKind.TIMES}


def test_parts_that_overrun_by_a_little_are_moved_together() -> None:
    request = only(vllm({**TOLD, FIRST: 5.5}))

    assert request.ledger[Stage.DECODE] == 5 * S
    assert request.segments[-1].stage is Stage.DECODE
    assert not request.repairs


def test_the_same_keys_of_sglang_are_not_taken_for_vllms() -> None:
    request = only(replace(vllm(), scope="sglang server"))

    assert request.ledger == {Stage.UNATTRIBUTED: 10 * S}


def test_spans_that_came_without_a_scope_are_known_by_their_marks() -> None:
    request = only(replace(vllm(), scope=""))

    assert request.ledger[Stage.PREFILL] == 2 * S


numbers = st.none() | st.floats() | st.integers() | st.text(max_size=4)
told_values = st.fixed_dictionaries(dict.fromkeys((FIRST, QUEUE, PREFILL, DECODE), numbers))
scopes = st.sampled_from(["vllm", "trt.llm", "sglang", "llm-d", "triton-server", "langfuse", ""])


@st.composite
def engine_spans(draw: st.DrawFn) -> list[Span]:
    """Spans of engines inside each other, which tell anything."""
    made = [root(100 * S)]
    for number in range(draw(st.integers(1, 6))):
        start_ns = draw(st.integers(-5, 100)) * S
        one = vllm(
            {key: value for key, value in draw(told_values).items() if value is not None},
            start_ns,
            start_ns + draw(st.integers(-1, 60)) * S,
            f"span {number}",
            draw(st.sampled_from(made)).span_id,
        )
        made.append(replace(one, scope=draw(scopes)))
    return made


@given(engine_spans(), st.randoms(use_true_random=False))
def test_whatever_engines_tell_the_request_is_partitioned(
    spans: list[Span], random: Random
) -> None:
    traces = build_traces(spans)
    random.shuffle(spans)

    for trace in traces:
        path = critical_path(trace)
        assert sum(ledger_of(path).values()) == trace.root.end_ns - trace.root.start_ns
    assert build_traces(spans) == traces


@given(engine_spans())
def test_what_engines_tell_lies_within_their_spans(spans: list[Span]) -> None:
    (trace,) = build_traces(spans)

    for span_id, intervals in trace.intervals.items():
        around = trace.spans[span_id]
        assert all(
            around.start_ns <= one.start_ns < one.end_ns <= around.end_ns for one in intervals
        )


def chain(length: int) -> list[Span]:
    """Engines inside each other."""
    return [
        vllm(name=f"span {number}", parent=f"span {number - 1}" if number else "root")
        for number in range(length)
    ]


def test_twice_as_long_a_chain_of_engines_inside_each_other_is_twice_the_work() -> None:
    def attributed(length: int) -> Callable[[], Request]:
        spans = chain(length)
        return lambda: only(*spans)

    assert growth(attributed, 200) < 2.5


def test_a_long_chain_of_engines_inside_each_other_is_attributed() -> None:
    request = only(*chain(5_000))

    assert sum(request.ledger.values()) == request.duration_ns
