"""The stage of any span, whoever sent it."""

from dataclasses import replace

import pytest

from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.model import AttributeValue, SpanKind, Stage, semconv
from tests.support.builders.spans.trees import span

CLIENT = SpanKind.CLIENT


@pytest.mark.parametrize("stage", list(Stage))
def test_our_own_attribute_names_every_stage(stage: Stage) -> None:
    found = stage_of(span("any", 0, 1, stage=stage))

    assert found is stage


def test_our_own_attribute_wins_over_the_conventions() -> None:
    found = stage_of(
        span(
            "generate",
            0,
            1,
            stage=Stage.PREPROCESS,
            attributes={semconv.GEN_AI_OPERATION_NAME: "chat"},
        )
    )

    assert found is Stage.PREPROCESS


def test_a_stage_we_do_not_know_leaves_the_choice_to_the_conventions() -> None:
    found = stage_of(
        span(
            "any",
            0,
            1,
            attributes={semconv.STAGE: "teleport", semconv.GEN_AI_OPERATION_NAME: "chat"},
        )
    )

    assert found is Stage.REMOTE_MODEL


@pytest.mark.parametrize(
    ("key", "value", "stage"),
    [
        ("gen_ai.operation.name", "chat", Stage.REMOTE_MODEL),
        ("gen_ai.operation.name", "text_completion", Stage.REMOTE_MODEL),
        ("gen_ai.operation.name", "generate_content", Stage.REMOTE_MODEL),
        ("gen_ai.operation.name", "embeddings", Stage.EMBED),
        ("gen_ai.operation.name", "retrieval", Stage.RETRIEVE),
        ("gen_ai.operation.name", "execute_tool", Stage.TOOL),
        ("gen_ai.operation.name", "search_memory", Stage.RETRIEVE),
        ("gen_ai.operation.name", "upsert_memory", Stage.DATABASE),
        ("gen_ai.operation.name", "delete_memory_store", Stage.DATABASE),
        ("gen_ai.operation.name", "invoke_agent", Stage.UNATTRIBUTED),
        ("openinference.span.kind", "LLM", Stage.REMOTE_MODEL),
        ("openinference.span.kind", "RERANKER", Stage.RERANK),
        ("openinference.span.kind", "CHAIN", Stage.UNATTRIBUTED),
        ("traceloop.span.kind", "workflow", Stage.UNATTRIBUTED),
        ("db.system.name", "qdrant", Stage.RETRIEVE),
        ("db.system", "Pinecone", Stage.RETRIEVE),
        ("db.system.name", "postgresql", Stage.DATABASE),
        ("db.system", "redis", Stage.DATABASE),
        ("http.request.method", "GET", Stage.NETWORK),
        ("http.method", "GET", Stage.NETWORK),
        ("rpc.system.name", "grpc", Stage.NETWORK),
        ("rpc.system", "grpc", Stage.NETWORK),
        ("code.function.name", "f", Stage.OTHER),
    ],
)
def test_conventions_old_and_new_tell_the_stage_of_a_client_span(
    key: str, value: AttributeValue, stage: Stage
) -> None:
    found = stage_of(span("call", 0, 1, kind=CLIENT, attributes={key: value}))

    assert found is stage


def test_a_value_of_the_wrong_type_is_no_convention() -> None:
    found = stage_of(span("call", 0, 1, attributes={semconv.GEN_AI_OPERATION_NAME: ("chat",)}))

    assert found is Stage.OTHER


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("POST /chat http send", Stage.RESPOND),
        ("POST /chat http receive", Stage.NETWORK),
        ("/ws websocket send", Stage.RESPOND),
    ],
)
def test_asgi_messages_are_sending_and_waiting_for_the_body(name: str, stage: Stage) -> None:
    found = stage_of(span(name, 0, 1))

    assert found is stage


@pytest.mark.parametrize("kind", [SpanKind.SERVER, SpanKind.CONSUMER])
def test_server_and_consumer_spans_explain_nothing_by_themselves(kind: SpanKind) -> None:
    found = stage_of(span("POST /chat", 0, 1, kind=kind, attributes={"http.method": "POST"}))

    assert found is Stage.UNATTRIBUTED


def test_a_model_server_explains_nothing_by_the_mere_name_of_its_operation() -> None:
    found = stage_of(
        span(
            "llm_request",
            0,
            1,
            kind=SpanKind.SERVER,
            attributes={semconv.GEN_AI_OPERATION_NAME: "chat"},
        )
    )

    assert found is Stage.UNATTRIBUTED


def test_a_call_named_like_a_message_of_a_server_is_a_call() -> None:
    found = stage_of(
        span("to http send", 0, 1, kind=CLIENT, attributes={semconv.HTTP_REQUEST_METHOD: "GET"})
    )

    assert found is Stage.NETWORK


def test_a_root_that_names_no_stage_explains_nothing() -> None:
    found = stage_of(span("job", 0, 1, parent=None))

    assert found is Stage.UNATTRIBUTED


def test_a_root_that_names_a_stage_has_it() -> None:
    found = stage_of(span("job", 0, 1, parent=None, stage=Stage.FORWARD))

    assert found is Stage.FORWARD


@pytest.mark.parametrize(
    ("host", "stage"),
    [
        ("api.openai.com", Stage.REMOTE_MODEL),
        ("Mine.OpenAI.Azure.com", Stage.REMOTE_MODEL),
        ("europe-west4-aiplatform.googleapis.com", Stage.REMOTE_MODEL),
        ("llm.internal", Stage.NETWORK),
        (None, Stage.NETWORK),
    ],
)
def test_a_call_of_a_models_public_api_is_a_remote_model(
    host: AttributeValue, stage: Stage
) -> None:
    attributes = {semconv.HTTP_REQUEST_METHOD: "POST", semconv.SERVER_ADDRESS: host}

    found = stage_of(span("POST", 0, 1, kind=CLIENT, attributes=attributes))

    assert found is stage


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        ("fastapi", "fastapi.endpoint"),
        ("@opentelemetry/instrumentation-express", "middleware - jsonParser"),
        ("@opentelemetry/instrumentation-nestjs-core", "AppController.ask"),
        ("io.opentelemetry.spring-webmvc-6.0", "ChatController.ask"),
    ],
)
def test_the_spans_of_the_web_framework_explain_nothing(scope: str, name: str) -> None:
    found = stage_of(replace(span(name, 0, 1), scope=scope))

    assert found is Stage.UNATTRIBUTED


@pytest.mark.parametrize(("package", "name"), [("net", "tcp.connect"), ("dns", "dns.lookup")])
def test_nodes_connections_are_network(package: str, name: str) -> None:
    scope = f"@opentelemetry/instrumentation-{package}"

    found = stage_of(replace(span(name, 0, 1), scope=scope))

    assert found is Stage.NETWORK


def test_what_no_table_knows_is_other() -> None:
    found = stage_of(span("something", 0, 1))

    assert found is Stage.OTHER


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("FastAPI._query", Stage.RETRIEVE),
        ("LocalHnswSegment.query_vectors", Stage.RETRIEVE),
        ("FastAPI._upsert", Stage.DATABASE),
        ("SqliteMetadataSegment._write_metadata", Stage.DATABASE),
    ],
)
def test_chromadbs_own_tracing_is_told_by_its_methods(name: str, stage: Stage) -> None:
    own = replace(span(name, 0, 1), scope="chromadb.telemetry.opentelemetry")

    found = stage_of(own)

    assert found is stage


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("decode", Stage.DECODE),
        ("rerank", Stage.RERANK),
        ("detokenize", Stage.DETOKENIZE),
        ("tokenizer.decode", Stage.DETOKENIZE),
        ("tokenizer_batch_decode", Stage.DETOKENIZE),
        ("PreTrainedTokenizerFast.decode", Stage.DETOKENIZE),
        ("tokenizer.encode", Stage.TOKENIZE),
        ("Tokenizer.encode_batch", Stage.TOKENIZE),
        ("tokenizer.save", Stage.OTHER),
        ("decoder", Stage.OTHER),
        ("other", Stage.OTHER),
    ],
)
def test_a_name_tells_the_stage_of_a_span_that_nothing_else_does(name: str, stage: Stage) -> None:
    assert stage_of(span(name, 0, 1)) is stage


def test_a_root_is_no_stage_by_its_name() -> None:
    assert stage_of(span("load", 0, 1, parent=None)) is Stage.UNATTRIBUTED


def test_what_the_conventions_say_wins_over_a_name() -> None:
    found = stage_of(
        span("decode", 0, 1, attributes={semconv.GEN_AI_OPERATION_NAME: "embeddings"})
    )

    assert found is Stage.EMBED
