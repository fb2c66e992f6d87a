"""What the metrics of OpenTelemetry's conventions say of a request."""

from collections.abc import Mapping

import pytest

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import AttributeValue, MetricAttributes, Span, SpanKind, semconv
from tests.support.builders.spans.trees import ROOT, span

CHAT: dict[str, AttributeValue] = {
    semconv.GEN_AI_OPERATION_NAME: "chat",
    semconv.GEN_AI_PROVIDER_NAME: "openai",
    semconv.GEN_AI_REQUEST_MODEL: "gpt",
    semconv.GEN_AI_RESPONSE_MODEL: "gpt-2026",
    semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 7,
}
POSTED: dict[str, AttributeValue] = {
    semconv.HTTP_REQUEST_METHOD: "POST",
    semconv.HTTP_ROUTE: "/chat",
    semconv.URL_SCHEME: "http",
    semconv.NETWORK_PROTOCOL_VERSION: "1.1",
    semconv.HTTP_RESPONSE_STATUS_CODE: 200,
}


def told(
    root: Mapping[str, AttributeValue],
    *below: Span,
    kind: SpanKind = SpanKind.SERVER,
) -> MetricAttributes:
    """What is said of a request whose own span has these attributes."""
    (request,) = requests_of(
        [span(ROOT, 0, 100, parent=None, kind=kind, attributes=root), *below], {}
    )
    return request.metric_attributes


def call(attributes: Mapping[str, AttributeValue], start_ns: int = 10) -> Span:
    return span(f"call {start_ns}", start_ns, start_ns + 20, attributes=attributes)


def test_a_request_over_http_is_told_by_its_own_span() -> None:
    assert dict(told(POSTED).http) == POSTED


def test_old_names_of_http_are_told_by_new_ones() -> None:
    old: dict[str, AttributeValue] = {
        semconv.HTTP_METHOD_OLD: "post",
        semconv.HTTP_ROUTE: "/chat",
        semconv.HTTP_SCHEME_OLD: "http",
        semconv.HTTP_FLAVOR_OLD: "1.1",
        semconv.HTTP_STATUS_CODE_OLD: 200,
    }

    assert dict(told(old).http) == POSTED


def test_a_method_that_nobody_knows_is_no_value_of_its_own() -> None:
    http = told({semconv.HTTP_REQUEST_METHOD: "BREW"}).http

    assert http == ((semconv.HTTP_REQUEST_METHOD, "_OTHER"),)


def test_a_call_elsewhere_is_no_request_that_a_server_answered() -> None:
    assert told({**POSTED, **CHAT}, kind=SpanKind.CLIENT) == MetricAttributes()


def test_what_was_not_asked_over_http_is_not_told_so() -> None:
    assert told({"rpc.method": "a.B/C"}).http == ()


def test_a_models_call_is_told_by_its_span() -> None:
    served: dict[str, AttributeValue] = {
        **POSTED,
        semconv.SERVER_ADDRESS: "gpu-1",
        semconv.SERVER_PORT: 8000,
    }

    assert dict(told(served, call(CHAT)).gen_ai) == {
        semconv.GEN_AI_OPERATION_NAME: "chat",
        semconv.GEN_AI_PROVIDER_NAME: "openai",
        semconv.GEN_AI_REQUEST_MODEL: "gpt",
        semconv.GEN_AI_RESPONSE_MODEL: "gpt-2026",
        semconv.SERVER_ADDRESS: "gpu-1",
        semconv.SERVER_PORT: 8000,
    }


def test_of_two_calls_the_one_counts_that_told_the_requests_model() -> None:
    embedding: dict[str, AttributeValue] = {
        semconv.GEN_AI_OPERATION_NAME: "embeddings",
        semconv.GEN_AI_REQUEST_MODEL: "minilm",
        semconv.GEN_AI_USAGE_INPUT_TOKENS: 5,
    }

    gen_ai = dict(told(POSTED, call(CHAT), call(embedding, 50)).gen_ai)

    assert gen_ai[semconv.GEN_AI_REQUEST_MODEL] == "gpt"


@pytest.mark.parametrize(
    ("said", "operation"),
    [
        ({semconv.OPENINFERENCE_SPAN_KIND: "LLM"}, "chat"),
        ({semconv.OPENINFERENCE_SPAN_KIND: "EMBEDDING"}, "embeddings"),
        ({semconv.TRACELOOP_REQUEST_TYPE: "completion"}, "text_completion"),
        ({semconv.LANGFUSE_TYPE: "generation"}, "chat"),
        ({}, None),
    ],
)
def test_other_conventions_tell_the_operation_too(
    said: dict[str, AttributeValue], operation: str | None
) -> None:
    tokens: dict[str, AttributeValue] = {
        semconv.OPENINFERENCE_MODEL: "tiny",
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 3,
    }

    gen_ai = dict(told(POSTED, call({**tokens, **said})).gen_ai)

    assert gen_ai.get(semconv.GEN_AI_OPERATION_NAME) == operation
    assert gen_ai[semconv.GEN_AI_REQUEST_MODEL] == "tiny"


def test_an_engine_is_the_provider_of_its_own_calls() -> None:
    engines: dict[str, AttributeValue] = {
        semconv.GEN_AI_RESPONSE_MODEL: "smollm2",
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 3,
        semconv.LATENCY_IN_QUEUE: 1e-9,
    }
    served = Span(
        trace_id=span("x", 0, 1).trace_id,
        span_id=ROOT,
        parent_id=None,
        name="llm_request",
        kind=SpanKind.SERVER,
        scope="vllm.llm_engine",
        start_ns=0,
        end_ns=100,
        attributes=engines,
    )

    (request,) = requests_of([served], {})

    gen_ai = dict(request.metric_attributes.gen_ai)
    assert gen_ai[semconv.GEN_AI_PROVIDER_NAME] == "vllm"
    assert gen_ai[semconv.GEN_AI_REQUEST_MODEL] == "smollm2"


def test_a_model_that_makes_no_tokens_is_none_of_generative_ai() -> None:
    assert told(POSTED, call({semconv.TRITON_MODEL_NAME: "resnet"})).gen_ai == ()


@pytest.mark.parametrize(
    ("root", "error_type"),
    [
        ({}, None),
        ({semconv.HTTP_RESPONSE_STATUS_CODE: 404}, None),
        ({semconv.HTTP_RESPONSE_STATUS_CODE: 500}, "500"),
        ({semconv.HTTP_RESPONSE_STATUS_CODE: 500, semconv.ERROR_TYPE: "KeyError"}, "KeyError"),
        ({semconv.HTTP_RESPONSE_STATUS_CODE: 429}, "rejected"),
        ({semconv.CANCELLED: True}, "cancelled"),
    ],
)
def test_what_failed_says_why(root: dict[str, AttributeValue], error_type: str | None) -> None:
    assert told({**POSTED, **root}).error_type == error_type


def test_no_attribute_is_longer_than_a_label() -> None:
    long = "x" * 10_000

    said = told(
        {**POSTED, semconv.HTTP_ROUTE: long, semconv.ERROR_TYPE: long},
        call({**CHAT, semconv.GEN_AI_RESPONSE_MODEL: long}),
    )

    texts = [value for _, value in said.http + said.gen_ai if isinstance(value, str)]
    assert max(map(len, [*texts, said.error_type or ""])) == 200


def test_what_has_the_wrong_type_is_left_out() -> None:
    odd: dict[str, AttributeValue] = {
        semconv.HTTP_RESPONSE_STATUS_CODE: "200",
        semconv.SERVER_PORT: "http",
    }

    said = told({**POSTED, **odd, semconv.SERVER_ADDRESS: "a"}, call(CHAT))

    assert semconv.HTTP_RESPONSE_STATUS_CODE not in dict(said.http)
    assert semconv.SERVER_PORT not in dict(said.gen_ai)
