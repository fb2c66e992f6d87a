"""Columns give what objects give, to the nanosecond, and leave to these what is odd."""

from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.calls.retries import MAX_SIDE_BY_SIDE
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.repairs.implausible import WEEK_NS
from latencytrace.model import (
    AttributeValue,
    Event,
    RepairKind,
    Request,
    Span,
    SpanKind,
    Stage,
    StatusCode,
    semconv,
)
from tests.support.builders.spans.numbered import TRACE_ID, root, span
from tests.support.builders.spans.recorded import FIXTURES, recorded
from tests.support.builders.spans.strategies import heaps
from tests.support.few import few
from tests.support.simulation.by_columns import ByColumns, Traces, differences
from tests.support.simulation.made_traces import made_attempts, made_calls, made_trace
from tests.support.simulation.simulator import GPU, MS, VECTORS, Aside, simulate
from tests.support.simulation.ways import WAYS

FIXTURE_NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))
SIMULATED = 40
GEN_AI = semconv.GEN_AI_OPERATION_NAME
CALLED = {semconv.SERVER_ADDRESS: "a"}


def made(random: Random, traces: int) -> Traces:
    ways = (made_trace, made_calls, made_attempts)
    return {f"{one:032x}": ways[one % 3](random, one) for one in range(1, traces + 1)}


def by_trace(spans: list[Span]) -> Traces:
    traces = defaultdict(list)
    for one in spans:
        traces[one.trace_id].append(one)
    return traces


def divided(*spans: Span) -> list[Request]:
    """Requests by columns, which are those of objects."""
    traces = {TRACE_ID: spans}
    found, others = ByColumns()(traces)
    assert (others, differences(found, traces)) == ([], [])
    return found[TRACE_ID]


def is_odd(*spans: Span) -> bool:
    return ByColumns()({TRACE_ID: spans})[1] == [TRACE_ID]


@given(st.integers(0, 1 << 32))
def test_columns_give_what_objects_give(seed: int) -> None:
    traces = made(Random(seed), 5)

    found, others = ByColumns()(traces)

    assert differences(found, traces) == []
    assert differences(found, traces, rootless=True) == []
    assert found.keys() | set(others) == traces.keys()


@pytest.mark.long
def test_later_batches_give_what_objects_give() -> None:
    random = Random(17)
    by_columns = ByColumns()
    ways = [0, 0]
    for _ in range(20):
        traces = made(random, 50)
        found, others = by_columns(traces)
        assert differences(found, traces) == []
        ways[0] += len(found)
        ways[1] += len(others)

    assert min(ways) > 100


def test_a_first_batch_without_any_shape_goes_as_objects() -> None:
    by_columns = ByColumns(most_shapes=0)

    assert by_columns({TRACE_ID: [root()]}) == ({}, [TRACE_ID])
    assert by_columns({TRACE_ID: [root()]}) == ({}, [TRACE_ID])


@given(heaps())
def test_any_heap_of_spans_goes_one_way_or_the_other(heap: list[Span]) -> None:
    traces = {TRACE_ID: heap} if heap else {}

    found, _ = ByColumns()(traces)

    assert differences(found, traces) == []


@given(heaps())
def test_work_after_an_answer_is_the_same_either_way(heap: list[Span]) -> None:
    late = [replace(one, start_ns=one.start_ns * MS, end_ns=one.end_ns * MS) for one in heap]
    traces = {TRACE_ID: late} if late else {}

    found, _ = ByColumns()(traces)

    assert differences(found, traces) == []


def test_requests_with_background_tasks_go_by_columns() -> None:
    tasks = [span(number, 90, number * MS, parent=number // 2) for number in range(2, 40)]

    (request,) = divided(root(), *tasks)

    assert request.after_ns == 39 * MS - 100


def test_work_that_ends_over_a_week_late_is_none() -> None:
    (request,) = divided(root(), span(2, 2 * WEEK_NS, 2 * WEEK_NS + MS))

    assert request.after_ns == 0


def test_a_long_chain_of_tasks_that_outlive_each_other_gives_the_same() -> None:
    chain = [span(number, 90, number * MS, parent=number - 1) for number in range(2, 400)]
    chain += [span(400 + number, 90, 5 * MS, parent=number) for number in range(200, 400)]

    (request,) = divided(root(), *chain)

    assert request.after_ns == 399 * MS - 100


More = dict[str, Any]
CHAIN: More = {
    "scope": "openinference.instrumentation.langchain",
    "attributes": {semconv.OPENINFERENCE_SPAN_KIND: "CHAIN"},
}
ROUTER: More = {"scope": "ray.serve", "name": "route_to_replica"}
PROXY: More = {"scope": "litellm", "name": "Received Proxy Server Request"}
CALL: More = {"scope": "litellm", "kind": SpanKind.CLIENT, "attributes": {GEN_AI: "chat"}}
STREAM: More = {
    "scope": "logfire.openai",
    "attributes": {
        semconv.LOGFIRE_SPAN_TYPE: "log",
        semconv.LOGFIRE_DURATION: 7e-9,
        GEN_AI: "chat",
    },
}


def test_spans_of_engines_that_ran_elsewhere_go_by_columns() -> None:
    divided(root(), span(2, 10, 50, **CHAIN), span(3, 20, 40))  # hung below the chain
    divided(root(), span(2, 10, 50), span(3, 11, 20, 2, **ROUTER), span(4, 15, 40, 3))
    divided(root(), span(2, 10, 20, scope="fastapi"), span(3, 15, 60, 2, **PROXY))
    divided(root(), span(2, 10, 20), span(3, 30, 30, **STREAM))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([CHAIN, ROUTER, PROXY, CALL, STREAM, {"scope": "fastapi"}, {}, {}]),
            st.integers(1, 9),
            st.integers(0, 40),
            st.integers(0, 20),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_spans_of_engines_that_ran_elsewhere_give_the_same(
    drawn: list[tuple[More, int, int, int]],
) -> None:
    spans = [root(40)]
    for number, (more, above, start_ns, lasted_ns) in enumerate(drawn, 2):
        spans.append(span(number, start_ns, start_ns + lasted_ns, min(above, number - 1), **more))
    traces = {TRACE_ID: spans}

    found, _ = ByColumns()(traces)

    assert differences(found, traces) == []


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_what_other_software_sends_gives_the_same(name: str) -> None:
    traces = by_trace(recorded(name))

    found, _ = ByColumns()(traces)

    assert differences(found, traces) == []


@pytest.mark.parametrize("skew_ns", [{}, {GPU: 37 * MS, VECTORS: -12 * MS}], ids=["true", "off"])
@pytest.mark.parametrize("way", few(8, ["none", *WAYS]))
def test_a_simulated_system_gives_the_same(way: str, skew_ns: dict[str, int]) -> None:
    aside = WAYS[way] if way in WAYS else Aside()
    traces = {one.trace_id: one.spans for one in simulate(3, SIMULATED, skew_ns, aside)}

    found, _ = ByColumns()(traces)

    assert differences(found, traces) == []


@pytest.mark.parametrize("skew_ns", [{}, {GPU: 37 * MS, VECTORS: -12 * MS}], ids=["true", "off"])
def test_simulated_traces_go_by_columns(skew_ns: dict[str, int]) -> None:
    traces = {one.trace_id: one.spans for one in simulate(3, SIMULATED, skew_ns)}

    found, _ = ByColumns()(traces)

    assert len(found) == SIMULATED
    assert all(len(requests) > 1 for requests in found.values())


def test_spans_of_no_shape_cost_their_own_traces_alone() -> None:
    by_columns = ByColumns(most_shapes=2)
    known = {"1" * 32: [span(1, 0, 100, parent=0, trace_id="1" * 32)]}
    by_columns(known)
    new = {"2" * 32: [span(1, 0, 100, parent=0, kind=SpanKind.SERVER, trace_id="2" * 32)]}
    odd = [span(1, 0, 100, parent=0, kind=SpanKind.CLIENT, trace_id="3" * 32)]

    found, others = by_columns(known | new | {"3" * 32: odd})

    assert (others, differences(found, known | new)) == (["3" * 32], [])
    assert len(by_columns.shapes.spans) == 2


def test_later_batches_learn_new_shapes() -> None:
    by_columns = ByColumns()

    for names in (["search"], ["search", "rerank"], ["embed"]):
        traces = {
            TRACE_ID: [root(), *(span(2 + at, 10, 20, name=n) for at, n in enumerate(names))]
        }
        assert differences(by_columns(traces)[0], traces) == []


def test_a_written_request_gets_the_next_revision() -> None:
    found, _ = ByColumns()({TRACE_ID: [root()]}, {(TRACE_ID, f"{1:016x}"): 3})

    assert [request.revision for request in found[TRACE_ID]] == [4]


def test_no_traces_have_no_requests() -> None:
    assert ByColumns()({}) == ({}, [])


def test_a_trace_through_two_services_holds_two_requests() -> None:
    called = span(2, 10, 90, kind=SpanKind.CLIENT, attributes={"http.request.method": "POST"})
    served = span(3, 20, 80, 2, kind=SpanKind.SERVER, service="vectors")
    index = span(4, 30, 70, 3, service="vectors", attributes={semconv.STAGE: "retrieve"})

    outer, inner = divided(root(), called, served, index)

    assert outer.ledger[Stage.RETRIEVE] == inner.ledger[Stage.RETRIEVE] == 40
    assert (inner.service, inner.duration_ns, inner.outermost) == ("vectors", 60, False)


def test_clocks_that_differ_are_brought_together() -> None:
    held = {semconv.QUEUED_NS: 5, semconv.INTERVALS: "respond:10+5"}
    served = span(3, 1_020, 1_080, 2, kind=SpanKind.SERVER, service="far", attributes=held)
    called = span(2, 10, 90, kind=SpanKind.CLIENT)

    outer, inner = divided(root(), called, served, span(4, 1_000, 1_090, 3, service="far"))

    assert [one.kind for one in outer.repairs] == [RepairKind.CLIPPED, RepairKind.CLOCK_SKEW]
    assert (inner.start_ns, inner.duration_ns) == (15, 65)


def test_a_request_whose_caller_is_not_traced_is_an_outermost_one() -> None:
    (request,) = divided(span(1, 0, 100, 9, kind=SpanKind.SERVER), span(2, 10, 20))

    assert request.outermost


def test_spans_that_stick_out_are_clipped_and_told() -> None:
    many = [span(number, 90, 100 + number) for number in range(2, 30)]

    (request,) = divided(root(), *many)

    first, *_, last = [repair.detail for repair in request.repairs]
    assert first == "span 2 stuck out of span 1: by 0 ns before it, 2 ns after it"
    assert last == "and 8 more"


def test_listening_for_the_hang_up_until_after_the_end_is_no_repair() -> None:
    listening = span(
        2, 90, 130, name="GET / http receive", scope="opentelemetry.instrumentation.fastapi"
    )

    (request,) = divided(root(), listening)

    assert request.repairs == ()


def test_the_gaps_of_a_process_fill_what_is_unattributed() -> None:
    (request,) = divided(
        root(attributes={semconv.RUNTIME_GAPS: "event_loop_lag:10+20;garbage_collection:25+15"}),
        span(2, 50, 60, attributes={semconv.STAGE: "decode"}),
    )

    assert request.ledger[Stage.RUNTIME] == 30
    assert {one.name for one in request.segments} >= {"event-loop lag", "garbage collection"}


def test_a_wait_for_a_result_is_queue_where_nothing_else_explains_the_time() -> None:
    (request,) = divided(
        root(attributes={semconv.RUNTIME_GAPS: "result_wait:10+50"}),
        span(2, 50, 60, attributes={semconv.STAGE: "decode"}),
    )

    assert request.ledger[Stage.QUEUE] == 40
    assert Stage.RUNTIME not in request.ledger
    assert "wait for another thread or task" in {one.name for one in request.segments}


def test_what_leaves_a_stream_is_timed() -> None:
    attributes = {
        semconv.STREAMED_TOKENS: 3,
        semconv.TOKEN_TIMES: "10;20,30,40",
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: 1e-8,
        semconv.INTERVALS: "respond:10+5,20+5",
    }

    (request,) = divided(root(attributes=attributes))

    assert (request.time_to_first_token_ns, request.time_per_output_token_ns) == (10, 30)
    assert request.ledger[Stage.RESPOND] == 10


@pytest.mark.parametrize("gaps", [f"{1 << 60}", f"{1 << 62},{1 << 62}", f"{10**18},{10**18}"])
def test_token_times_that_would_not_fit_are_left_to_objects(gaps: str) -> None:
    attributes = {semconv.STREAMED_TOKENS: 3, semconv.TOKEN_TIMES: f"10;{gaps}"}

    assert is_odd(root(attributes=attributes))


@pytest.mark.parametrize(("start_ns", "end_ns"), [(0, 1 << 62), (5, (1 << 63) - 1)])
def test_times_beyond_a_century_and_more_are_left_to_objects(start_ns: int, end_ns: int) -> None:
    assert is_odd(span(1, start_ns, end_ns, parent=0, kind=SpanKind.SERVER))


def test_what_a_model_makes_for_nobody_is_no_first_token_and_makes_no_token_quicker() -> None:
    tokens = {semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 11, semconv.STAGE: Stage.DECODE}
    decode = span(2, 40, 1_040, attributes=tokens)
    prefill = span(3, 10, 160, attributes={semconv.STAGE: Stage.PREFILL})
    generate = span(4, 10, 160, attributes={semconv.INTERVALS: "prefill:0+150"})

    (late,) = divided(root(), prefill, decode)
    (cut,) = divided(root(), generate, decode)
    (whole,) = divided(root(1_100), generate, decode)

    assert (late.time_to_first_token_ns, late.time_per_output_token_ns) == (None, 100)
    assert (cut.time_to_first_token_ns, cut.time_per_output_token_ns) == (None, 100)
    assert (whole.time_to_first_token_ns, whole.time_per_output_token_ns) == (160, 100)


def test_what_an_engine_tells_of_a_span_counts() -> None:
    told = {
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 5,
        semconv.LATENCY_TO_FIRST: 4e-8,
        semconv.LATENCY_IN_QUEUE: 1e-8,
        semconv.LATENCY_IN_PREFILL: 2e-8,
        semconv.LATENCY_IN_DECODE: 4e-8,
    }
    engine = span(2, 10, 100, name="llm_request", scope="vllm", attributes=told)

    (request,) = divided(root(), engine)

    assert request.ledger[Stage.DECODE] == 40
    assert request.time_per_output_token_ns == 10


def _call(number: int, start_ns: int, parent: int, **told: AttributeValue) -> Span:
    keys = {
        "model": semconv.GEN_AI_REQUEST_MODEL,
        "reason": semconv.GEN_AI_RESPONSE_FINISH_REASONS,
        "read": semconv.GEN_AI_USAGE_INPUT_TOKENS,
        "cached": semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS,
        "made": semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
    }
    attributes = {keys[name]: value for name, value in told.items()}
    return span(number, start_ns, start_ns + 40, parent, attributes=attributes)


@pytest.mark.parametrize(
    ("agent", "model", "reason", "read", "cached", "made"),
    [  # the table of `ledger.md`: what the outer span tells, and what is known of the request
        pytest.param({}, "small", "stop", 80, 30, 12, id="nothing"),
        pytest.param({"read": 80, "made": 12}, "small", "stop", 80, 30, 12, id="totals"),
        pytest.param(
            {"read": 80, "made": 12, "model": "planner"}, "planner", "stop", 80, 30, 12, id="model"
        ),
        pytest.param({"read": 0, "made": 0}, "small", "stop", 80, 30, 12, id="zeros"),
        pytest.param({"read": 50, "made": 5}, "small", "stop", 80, 30, 12, id="the last's"),
        pytest.param({"read": 99, "made": 20}, "small", "stop", 99, 30, 20, id="more"),
        pytest.param({"read": 80}, "small", "stop", 80, 30, 12, id="input alone"),
        pytest.param(
            {"made": 12, "reason": "done", "cached": 40}, "small", "done", 80, 40, 12, id="all"
        ),
    ],
)
def test_an_outer_spans_totals_hide_nothing_of_the_calls_below(
    agent: dict[str, AttributeValue],
    model: str,
    reason: str,
    read: int,
    cached: int,
    made: int,
) -> None:
    outer = replace(_call(2, 5, 1, **agent), end_ns=95)
    plan = _call(3, 10, 2, model="large", reason="tool_calls", read=30, cached=10, made=7)
    answer = _call(4, 50, 2, model="small", reason="stop", read=50, cached=20, made=5)
    tokenizer = _call(5, 50, 4, read=50)

    (request,) = divided(root(), outer, plan, answer, tokenizer)

    assert (request.model, request.finish_reason) == (model, reason)
    assert (request.input_tokens, request.cached_input_tokens) == (read, cached)
    assert request.output_tokens == made


def test_the_model_below_a_total_may_be_named_by_a_span_without_tokens() -> None:
    outer = replace(_call(2, 5, 1, read=9, made=3), end_ns=95)
    call = _call(3, 10, 2, model="small", reason="stop")

    (request,) = divided(root(), outer, call)

    assert (request.model, request.finish_reason) == ("small", "stop")


def test_what_a_proxy_held_back_began_earlier() -> None:
    held = {
        semconv.QUEUED_NS: 20,
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: 1e-8,
        semconv.INTERVALS: "respond:50+10",
        semconv.RUNTIME_GAPS: "event_loop_lag:30+10",
    }

    (request,) = divided(span(1, 100, 200, parent=0, kind=SpanKind.SERVER, attributes=held))

    assert (request.start_ns, request.duration_ns) == (80, 120)
    assert request.ledger[Stage.QUEUE] == 20
    assert request.time_to_first_token_ns == 30


def test_steps_are_charged_to_what_they_are_steps_of() -> None:
    call = span(2, 10, 90, scope="litellm", attributes={semconv.GEN_AI_OPERATION_NAME: "chat"})
    step = span(3, 20, 80, 2, scope="litellm", name="raw_gen_ai_request")

    (request,) = divided(root(), call, step)

    assert [(one.name, one.stage) for one in request.segments][1] == (
        "span 2",
        Stage.REMOTE_MODEL,
    )
    assert len(request.segments) == 3


def test_events_tell_of_first_tokens() -> None:
    event = Event(time_ns=30, name="First Token Stream Event")

    (request,) = divided(root(), span(2, 10, 90, events=(event,)))

    assert request.model_time_to_first_token_ns == 30


def test_the_pieces_of_a_streamed_answer_tell_of_its_first_token() -> None:
    sent = {semconv.ASGI_EVENT_TYPE: "http.response.body"}
    pieces = [
        span(number, 10 * number, 10 * number + 5, name="POST / http send", attributes=sent)
        for number in (9, 4, 7)
    ]
    decode = span(2, 5, 95, attributes={semconv.STAGE: "decode"})

    (streamed,) = divided(root(), decode, *pieces)
    (whole,) = divided(root(), decode, *pieces[:2])
    within = [replace(one, parent_id=decode.span_id) for one in pieces]
    (nested,) = divided(root(), decode, pieces[0], *within[1:])
    answer = span(3, 5, 95, kind=SpanKind.SERVER, attributes={semconv.STAGE: "decode"})
    elsewhere = [replace(one, parent_id=answer.span_id) for one in pieces]

    assert streamed.time_to_first_token_ns == 45
    assert whole.time_to_first_token_ns is None
    assert nested.time_to_first_token_ns == 45
    assert divided(root(), answer, *elsewhere)[0].time_to_first_token_ns is None


def test_a_message_that_is_sent_and_left_is_part_of_its_request() -> None:
    (request,) = divided(root(), span(2, 10, 30, kind=SpanKind.PRODUCER))

    assert request.ledger[Stage.QUEUE] == 20


def test_many_spans_below_one_give_the_same() -> None:
    children = [span(number, number, number + number * 7_919 % 90) for number in range(2, 3_000)]
    traces = {TRACE_ID: [root(4_000), *children]}

    found, _ = ByColumns()(traces)

    assert found
    assert differences(found, traces) == []


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param([root(), root()], id="the same span twice"),
        pytest.param([root(), span(2, 10, 20, 7)], id="a lost parent"),
        pytest.param([root(), span(2, 10, 20, 3), span(3, 10, 20, 2)], id="a circle"),
        pytest.param([root(), span(2, 20, 10)], id="an end before its start"),
        pytest.param([root(), span(2, 20, 1 << 64)], id="no time"),
        pytest.param([root(), span(2, 1, 2, kind=SpanKind.CONSUMER)], id="a message"),
        pytest.param(
            [root(), span(2, 1, 2, scope="llm-d", name="prefill")], id="a part that only prefills"
        ),
        pytest.param(
            [
                root(),
                span(
                    2,
                    1,
                    9,
                    scope="vllm",
                    name="llm_request",
                    attributes={semconv.LATENCY_IN_DECODE: 1.0},
                ),
                span(3, 2, 5, 2),
            ],
            id="something below what an engine tells the times of",
        ),
        pytest.param(
            [
                root(),
                *(
                    span(2 + one, one, one + 1, kind=SpanKind.CLIENT, status=StatusCode.ERROR)
                    for one in range(MAX_SIDE_BY_SIDE + 1)
                ),
            ],
            id="more calls than are compared, some of which failed",
        ),
        pytest.param(
            [
                root(10**10),
                span(
                    2,
                    0,
                    10**10,
                    scope="text_generation",
                    attributes={
                        semconv.RUST_NAMESPACE: "text_generation_router",
                        semconv.RUST_INFERENCE_TIME: "9s",
                        semconv.RUST_PACE: "1ns",
                    },
                ),
            ],
            id="more tokens than can be added up, by an engine's times",
        ),
        pytest.param(
            [root(), span(2, 1, 2, attributes={semconv.INTERVALS: "x"})], id="unreadable intervals"
        ),
        pytest.param([root(attributes={semconv.SHARED: True})], id="shared"),
    ],
)
def test_what_is_odd_is_left_to_objects(spans: list[Span]) -> None:
    assert is_odd(*spans)
    assert isinstance(requests_of(spans, {}), tuple)


@pytest.mark.parametrize(
    "others",
    [
        [],
        [span(3, 0, 2, kind=SpanKind.CLIENT, attributes=CALLED)],
        [span(3, 3, 4, kind=SpanKind.CLIENT, attributes={semconv.SERVER_ADDRESS: "b"})],
        [span(3, 3, 4, attributes=CALLED)],
    ],
    ids=["alone", "beside it", "of another target", "no call"],
)
def test_a_call_that_failed_and_was_not_made_again_goes_by_columns(others: list[Span]) -> None:
    failed = span(2, 1, 2, kind=SpanKind.CLIENT, status=StatusCode.ERROR, attributes=CALLED)

    (request,) = divided(root(), failed, *others)

    assert Stage.RETRY not in request.ledger


def test_a_call_that_failed_and_was_made_again_goes_by_columns() -> None:
    first, second = (
        replace(
            span(one, 10 * one, 10 * one + 5, kind=SpanKind.CLIENT, attributes=CALLED), name="a"
        )
        for one in (2, 3)
    )
    other = span(4, 26, 28)

    (request,) = divided(root(), replace(first, status=StatusCode.ERROR), second, other)

    assert request.ledger[Stage.RETRY] == 8  # all from its start to the next, but other work


def test_weights_are_read_alike() -> None:
    states = ("", "ot=th:c", "ot=th:b8;rv:c23456789abcde", "dd=s:1")
    told: tuple[dict[str, object], ...] = (
        {},
        {semconv.SAMPLE_RATE: 7},
        {"sampling.probability": 0.3},
    )
    traces = {}
    for number in range(1, 61):
        trace_id = f"{number:018x}{'f' * 14}"
        root = span(1, 0, 100, parent=0, kind=SpanKind.SERVER, trace_id=trace_id,
                    trace_state=states[number % 4], attributes=dict(told[number % 3]))  # fmt: skip
        traces[trace_id] = [root, span(2, 10, 20, trace_id=trace_id, trace_state="ot=th:8")]
    by_columns = ByColumns()

    first, _ = by_columns(traces)
    found, others = by_columns(traces)  # shapes of the first batch are known in the second

    assert not others
    assert differences(first, traces) == differences(found, traces) == []
    weights = [one.weight for requests in found.values() for one in requests]
    assert {1, 4, 7} < set(weights)


def test_segments_keep_their_names_while_other_threads_number_shapes() -> None:
    by_columns = ByColumns()
    gaps = {semconv.RUNTIME_GAPS: "event_loop_lag:10+5"}
    traces = {TRACE_ID: [root(attributes=gaps), span(2, 40, 50)]}
    by_columns(traces)
    by_columns.shapes.spans = Growing(by_columns.shapes.spans)

    found, _ = by_columns(traces)

    assert differences(found, traces) == []


class Growing(list[Span]):
    """Shapes to which another one is added whenever they are counted."""

    def __len__(self) -> int:
        self.append(self[0])
        return super().__len__()
