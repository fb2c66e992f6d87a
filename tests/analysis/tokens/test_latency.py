"""When the first token came, how fast the others followed, and how many there were."""

import math

import pytest

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.tokens.latency import token_latency
from latencytrace.model import AttributeValue, FirstTokenOf, Span, SpanKind, Stage, semconv
from tests.support.builders.spans.trees import request, root, span

OUTPUT = semconv.GEN_AI_USAGE_OUTPUT_TOKENS
INPUT = semconv.GEN_AI_USAGE_INPUT_TOKENS
FIRST_CHUNK = semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK


def prefill(name: str, start_ns: int, end_ns: int) -> Span:
    return span(name, start_ns, end_ns, stage=Stage.PREFILL)


def decode(
    name: str, start_ns: int, end_ns: int, tokens: int | None, parent: str = "root"
) -> Span:
    attributes = {} if tokens is None else {OUTPUT: tokens}
    return span(name, start_ns, end_ns, parent=parent, stage=Stage.DECODE, attributes=attributes)


def test_nothing_is_known_of_a_request_without_model_calls() -> None:
    found = token_latency(request(span("search", 0, 9)))

    assert (found.time_to_first_token_ns, found.time_per_output_token_ns) == (None, None)
    assert (found.input_tokens, found.cached_input_tokens, found.output_tokens) == (
        None,
        None,
        None,
    )
    assert (found.model, found.finish_reason, found.batch_size) == (None, None, None)


def test_the_first_token_comes_at_the_end_of_the_prefill_that_ends_first() -> None:
    found = token_latency(request(prefill("second", 20, 60), prefill("first", 30, 50)))

    assert found.time_to_first_token_ns == 50


def test_a_first_token_that_came_once_the_request_was_over_is_none() -> None:
    spans = [root(40), prefill("prefill", 10, 70), decode("decode", 70, 100, 4)]

    found = token_latency(build_traces(spans)[0])

    assert found.time_to_first_token_ns is None
    assert found.model_time_to_first_token_ns is None


def test_a_prefill_inside_a_call_that_ran_on_after_the_request_tells_no_first_token() -> None:
    packed = f"prefill:{10}+{60};decode:0+30"
    call = span("generate", 10, 110, attributes={semconv.INTERVALS: packed})

    assert token_latency(build_traces([root(120), call])[0]).time_to_first_token_ns == 80
    assert token_latency(build_traces([root(40), call])[0]).time_to_first_token_ns is None


def test_without_a_prefill_the_first_chunk_is_counted_from_its_span() -> None:
    call = span("chat", 20_000, 90_000, kind=SpanKind.CLIENT, attributes={FIRST_CHUNK: 3e-5})

    found = token_latency(request(call, end_ns=100_000))

    assert found.time_to_first_token_ns == 50_000


def test_a_streamed_answers_first_token_comes_when_it_leaves_for_the_caller() -> None:
    server = root(100_000, {FIRST_CHUNK: 6e-5})
    spans = [prefill("prefill", 10_000, 50_000), decode("decode", 50_000, 90_000, 4)]

    found = token_latency(build_traces([server, *spans])[0])

    assert found.time_to_first_token_ns == 60_000
    assert found.time_to_first_token_of is FirstTokenOf.CALLER
    assert found.model_time_to_first_token_ns == 50_000


def test_the_first_token_of_an_answer_in_one_piece_is_the_models_and_says_so() -> None:
    found = token_latency(request(prefill("prefill", 10, 50), decode("decode", 50, 90, 4)))

    assert found.time_to_first_token_ns == found.model_time_to_first_token_ns == 50
    assert found.time_to_first_token_of is FirstTokenOf.MODEL


def test_a_gateways_first_token_is_its_callers_and_the_engines_stands_beside_it() -> None:
    gateway = root(900_000, {FIRST_CHUNK: 3.4e-4})
    engine = span(
        "llm_request", 20_000, 880_000, attributes={semconv.LATENCY_TO_FIRST: 1.43e-4, OUTPUT: 44}
    )

    found = token_latency(build_traces([gateway, engine])[0])

    assert found.time_to_first_token_ns == 340_000
    assert found.model_time_to_first_token_ns == 163_000


def test_a_first_body_of_unknown_form_is_the_first_token_where_a_model_answered() -> None:
    server = root(100, {semconv.STREAMED_FIRST_BODY: 60})

    answered = token_latency(build_traces([server, prefill("prefill", 10, 50)])[0])
    unanswered = token_latency(build_traces([server, span("search", 10, 50)])[0])

    assert answered.time_to_first_token_ns == 60
    assert unanswered.time_to_first_token_ns is None


def streamed(first_ns: int, gap_ns: int, gaps: int, **counts: int) -> dict[str, AttributeValue]:
    """What the request's own span says of an answer in packets that left evenly."""
    times = f"{first_ns};" + ",".join([str(gap_ns)] * gaps)
    counted = {f"latencytrace.streamed.{name}": count for name, count in counts.items()}
    return {FIRST_CHUNK: first_ns / 1e9, semconv.TOKEN_TIMES: times, **counted}


# 1 000 tokens are made, one each 10; the first 900 are reasoning that never leaves.
THINKING = decode("decode", 10, 10_000, 1_000)


@pytest.mark.parametrize(
    ("server", "made"),
    [
        pytest.param(
            root(10_010, streamed(9_010, 10, 99, events=99, tokens=99)), THINKING, id="hidden"
        ),
        pytest.param(
            root(10_010, streamed(9_010, 10, 49, events=49, tokens=49)),
            THINKING,
            id="hidden, and the caller hung up half-way",
        ),
        pytest.param(
            root(10_010, {FIRST_CHUNK: 9.01e-6}), THINKING, id="hidden, and nobody saw what left"
        ),
        pytest.param(
            root(230, streamed(50, 40, 4, events=4, tokens=16)),
            decode("decode", 10, 210, 21),
            id="four tokens a packet",
        ),
        pytest.param(
            root(230, streamed(50, 40, 4, events=4)),
            span("chat", 0, 215, attributes={OUTPUT: 20}),
            id="four tokens a packet, made elsewhere",
        ),
        pytest.param(
            root(230, streamed(50, 10, 9, events=18, choices=2)),
            span("chat", 0, 215, attributes={OUTPUT: 20}),
            id="two answers beside each other",
        ),
        pytest.param(
            root(230, streamed(50, 10, 9, events=9)),
            span("GET", 0, 215),
            id="nobody says how many tokens there were",
        ),
    ],
)
def test_the_time_per_output_token_is_that_of_what_left(server: Span, made: Span) -> None:
    found = token_latency(build_traces([server, made])[0])

    assert found.time_per_output_token_ns == 10


def test_a_stream_whose_tokens_took_no_time_has_no_time_per_output_token() -> None:
    server = root(100, streamed(50, 0, 3, events=3, tokens=3))

    found = token_latency(build_traces([server])[0])

    assert found.time_per_output_token_ns is None


@pytest.mark.parametrize("count", [0, -3, True, 2.5, "3"])
def test_a_count_of_what_left_that_cannot_be_is_unknown(count: AttributeValue) -> None:
    server = root(100, {**streamed(50, 5, 3), semconv.STREAMED_TOKENS: count})

    found = token_latency(build_traces([server, decode("decode", 10, 50, 5)])[0])

    assert found.time_per_output_token_ns == 10


def test_an_answer_that_leaves_only_when_it_is_whole_is_counted_as_it_was_made() -> None:
    server = root(100_000, {FIRST_CHUNK: 9.5e-5})
    spans = [prefill("prefill", 10_000, 50_000), decode("decode", 50_000, 90_000, 5)]

    found = token_latency(build_traces([server, *spans])[0])

    assert found.time_to_first_token_ns == 95_000
    assert found.time_per_output_token_ns == 10_000


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0, 1e9, 1e300, True, "0.1"])
def test_a_first_chunk_that_cannot_be_is_unknown(seconds: AttributeValue) -> None:
    call = span("chat", 0, 2 * 10**9, attributes={FIRST_CHUNK: seconds})

    found = token_latency(request(call, end_ns=2 * 10**9))

    assert found.time_to_first_token_ns is None


def test_the_first_token_is_not_among_those_that_are_decoded() -> None:
    found = token_latency(request(decode("decode", 10, 50, 5)))

    assert found.time_per_output_token_ns == 10


def test_a_request_cut_short_does_not_make_its_tokens_quicker() -> None:
    spans = [root(300), prefill("prefill", 0, 100), decode("decode", 100, 1_100, 11)]

    found = token_latency(build_traces(spans)[0])

    assert found.time_to_first_token_ns == 100
    assert found.time_per_output_token_ns == 100


def test_decode_spans_take_their_tokens_from_their_parent() -> None:
    generate = span("generate", 0, 100, attributes={OUTPUT: 5})

    found = token_latency(request(generate, decode("decode", 10, 50, None, "generate")))

    assert found.time_per_output_token_ns == 10


def test_tokens_of_a_generation_decoded_in_two_pieces_count_once() -> None:
    generate = span("generate", 0, 100, attributes={OUTPUT: 9})

    found = token_latency(
        request(
            generate,
            decode("before preemption", 10, 50, None, "generate"),
            decode("after it", 60, 100, None, "generate"),
        )
    )

    assert found.time_per_output_token_ns == 10


def test_sequences_of_a_batch_get_their_tokens_at_the_same_time() -> None:
    batch = span(
        "decode", 10, 50, stage=Stage.DECODE, attributes={OUTPUT: 20, semconv.BATCH_SIZE: 4}
    )

    found = token_latency(request(batch))

    assert found.time_per_output_token_ns == 10
    assert found.batch_size == 4


def test_decoding_of_unknown_tokens_does_not_slow_the_known_ones() -> None:
    found = token_latency(request(decode("known", 10, 50, 5), decode("unknown", 50, 90, None)))

    assert found.time_per_output_token_ns == 10


def test_a_single_token_has_no_time_per_output_token() -> None:
    found = token_latency(request(decode("decode", 10, 50, 1)))

    assert found.time_per_output_token_ns is None
    assert found.output_tokens == 1


def test_tokens_told_again_inside_a_model_call_count_once() -> None:
    chat = span("chat", 0, 90, attributes={OUTPUT: 7, INPUT: 30})
    inner = span("POST", 0, 90, parent="chat", attributes={OUTPUT: 7, INPUT: 30})

    found = token_latency(request(chat, inner))

    assert (found.input_tokens, found.output_tokens) == (30, 7)


def test_tokens_of_several_model_calls_add_up() -> None:
    found = token_latency(
        request(
            span("plan", 0, 40, attributes={OUTPUT: 7, INPUT: 30}),
            span("answer", 50, 90, attributes={OUTPUT: 5, INPUT: 50}),
        )
    )

    assert (found.input_tokens, found.output_tokens) == (80, 12)


def test_tokens_counted_by_a_tokenizer_are_not_added_to_those_of_the_model() -> None:
    found = token_latency(
        request(
            span("encode", 0, 10, stage=Stage.TOKENIZE, attributes={INPUT: 30}),
            span("generate", 10, 90, attributes={OUTPUT: 5, INPUT: 30}),
        )
    )

    assert found.input_tokens == 30


@pytest.mark.parametrize(
    ("input_key", "output_key", "cached_key"),
    [
        pytest.param(
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.cache_read.input_tokens",
            id="new names",
        ),
        pytest.param(
            "gen_ai.usage.prompt_tokens",
            "gen_ai.usage.completion_tokens",
            "gen_ai.usage.cache_read.input_tokens",
            id="old names",
        ),
        pytest.param(
            "llm.token_count.prompt",
            "llm.token_count.completion",
            "llm.token_count.prompt_details.cache_read",
            id="OpenInference",
        ),
    ],
)
def test_token_counts_are_read_under_every_convention(
    input_key: str, output_key: str, cached_key: str
) -> None:
    call = span("chat", 0, 90, attributes={input_key: 30, output_key: 7, cached_key: 20})

    found = token_latency(request(call))

    assert (found.input_tokens, found.output_tokens, found.cached_input_tokens) == (30, 7, 20)


@pytest.mark.parametrize("tokens", [-1, True, 7.5, "7"])
def test_a_token_count_that_cannot_be_is_unknown(tokens: AttributeValue) -> None:
    found = token_latency(request(span("chat", 0, 90, attributes={OUTPUT: tokens})))

    assert found.output_tokens is None


def test_an_embedding_request_has_input_tokens_only() -> None:
    found = token_latency(request(span("embed", 0, 90, stage=Stage.EMBED, attributes={INPUT: 30})))

    assert (found.input_tokens, found.output_tokens) == (30, None)


def test_the_model_is_the_one_that_generates_not_the_one_that_embeds() -> None:
    found = token_latency(
        request(
            span("embed", 0, 10, attributes={semconv.GEN_AI_REQUEST_MODEL: "minilm", INPUT: 3}),
            span("chat", 10, 90, attributes={semconv.GEN_AI_REQUEST_MODEL: "llama", OUTPUT: 5}),
            span("judge", 90, 99, attributes={semconv.GEN_AI_REQUEST_MODEL: "guard"}),
        )
    )

    assert found.model == "llama"


def test_without_token_counts_any_span_may_name_the_model() -> None:
    found = token_latency(
        request(span("embed", 0, 10, attributes={semconv.GEN_AI_RESPONSE_MODEL: "minilm"}))
    )

    assert found.model == "minilm"


def test_the_finish_reason_is_that_of_the_last_model_call() -> None:
    reason = semconv.GEN_AI_RESPONSE_FINISH_REASONS

    found = token_latency(
        request(
            span("plan", 0, 40, attributes={OUTPUT: 7, reason: ("tool_calls",)}),
            span("answer", 50, 90, attributes={OUTPUT: 5, reason: ("stop",)}),
        )
    )

    assert found.finish_reason == "stop"
