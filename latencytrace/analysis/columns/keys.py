"""The attributes that the analysis reads, by how columns hold them."""

from collections.abc import Container
from typing import Final

from latencytrace.model import AttributeValue, semconv

COUNTS: Final = frozenset(
    {
        semconv.GEN_AI_USAGE_INPUT_TOKENS, semconv.GEN_AI_USAGE_INPUT_TOKENS_OLD,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS, semconv.GEN_AI_USAGE_OUTPUT_TOKENS_OLD,
        semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS, semconv.GEN_AI_USAGE_CACHED_TOKENS_OLD,
        semconv.GEN_AI_USAGE_CACHE_READ_TOKENS_OLD,
        semconv.AI_SDK_INPUT_TOKENS, semconv.AI_SDK_OUTPUT_TOKENS, semconv.AI_SDK_CACHED_TOKENS,
        semconv.AI_SDK_PROMPT_TOKENS, semconv.AI_SDK_COMPLETION_TOKENS, semconv.AI_SDK_TOKENS,
        semconv.OPENINFERENCE_INPUT_TOKENS, semconv.OPENINFERENCE_OUTPUT_TOKENS,
        semconv.OPENINFERENCE_CACHED_INPUT_TOKENS,
        "llm.token_count.total", "llm.usage.total_tokens", "gen_ai.usage.total_tokens",
        semconv.GEN_AI_REQUEST_N, "gen_ai.request.max_tokens", "gen_ai.request.seed",
        semconv.STREAMED_TOKENS, semconv.STREAMED_EVENTS, semconv.STREAMED_FIRST_BODY,
        semconv.CONCURRENCY, semconv.QUEUE_DEPTH, semconv.PREEMPTIONS, semconv.QUEUED_NS,
        semconv.BATCH_SIZE, semconv.BATCH_TOKENS, semconv.INDEX_SIZE, semconv.TGI_BATCH_SIZE,
        semconv.DEVICE_START, semconv.DEVICE_END, semconv.DEVICE_DURATION,
        semconv.DEVICE_LAUNCH, semconv.DEVICE_QUEUE_DELAY, semconv.DEVICE_ERROR,
        semconv.DEVICE_PASSES, semconv.DEVICE_UNMEASURED, semconv.MODEL_FLOPS,
        semconv.TRANSFER_BYTES, semconv.TRANSFERS_UNTIMED,
        semconv.DB_OPERATION_BATCH_SIZE, semconv.DB_RESPONSE_RETURNED_ROWS,
        "http.request.body.size", "http.response.body.size",
        "http.request_content_length", "http.response_content_length",
        "messaging.message.body.size", "messaging.message.payload_size_bytes",
    }
)  # fmt: skip
"""Integers that differ from span to span: int64 columns, sparse."""

PACKED: Final = frozenset(
    {
        semconv.INTERVALS, semconv.TOKEN_TIMES, semconv.RUNTIME_GAPS, semconv.NETWORK_PHASES,
        # Seconds, most of them of engines
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, semconv.LATENCY_TO_FIRST,
        semconv.LATENCY_E2E, semconv.LATENCY_IN_QUEUE, semconv.LATENCY_IN_PREFILL,
        semconv.LATENCY_IN_DECODE, "gen_ai.latency.time_in_model_inference",
        semconv.RUST_VALIDATION_TIME, semconv.RUST_TOKENIZATION_TIME, semconv.RUST_QUEUE_TIME,
        semconv.RUST_INFERENCE_TIME, semconv.RUST_PACE, "total_time",
        semconv.LLM_D_TIME_TO_DECODE_MS, semconv.LLM_D_PREFILL_MS, semconv.LLM_D_DECODE_MS,
        semconv.LLM_D_HANDOVER_MS, semconv.LLM_D_HANDOVER_MS_OLD, semconv.LOGFIRE_DURATION,
        semconv.LANGFUSE_USAGE, semconv.LANGFUSE_GENERATION_BEGAN,
        semconv.AI_SDK_FIRST_CHUNK_MS, semconv.STRANDS_FIRST_CHUNK_MS,
        # Who asked, and which of many
        "gen_ai.request.id", "gen_ai.conversation.id", "gen_ai.tool.call.id",
        semconv.LITELLM_CALL_ID, "session.id", "user.id", "enduser.id", "request.id",
        "messaging.message.id", "messaging.message.conversation_id",
        "client.address", "http.client_ip", "net.peer.ip", "network.peer.address",
        "db.query.text", "db.statement", "thread.name",
    }
)  # fmt: skip
"""Texts, bytes and numbers that differ from span to span: handed as they are, sparse."""

MOST_VALUES: Final = 32
_VARYING = frozenset({str, bytes, int, float})

UNREAD: Final = frozenset(
    {
        semconv.URL_PATH, semconv.HTTP_TARGET_OLD, semconv.URL_FULL, semconv.HTTP_URL_OLD,
        "url.query", "client.port", "net.peer.port", "network.peer.port", "thread.id",
        "gen_ai.response.id",
    }
)  # fmt: skip

RULED: Final = frozenset(
    {
        semconv.STAGE, semconv.SHARED, semconv.STARTUP, semconv.CANCELLED, semconv.RETRIES,
        semconv.STREAMED_CHOICES, semconv.ASGI_EVENT_TYPE, semconv.ERROR_TYPE,
        semconv.HTTP_REQUEST_METHOD, semconv.HTTP_METHOD_OLD, semconv.HTTP_ROUTE,
        semconv.HTTP_RESPONSE_STATUS_CODE, semconv.HTTP_STATUS_CODE_OLD,
        semconv.URL_SCHEME, semconv.HTTP_SCHEME_OLD, semconv.NETWORK_PROTOCOL_VERSION,
        semconv.HTTP_FLAVOR_OLD, semconv.SERVER_ADDRESS, semconv.SERVER_PORT,
        semconv.RPC_SYSTEM_NAME, semconv.RPC_SYSTEM_OLD, semconv.RPC_GRPC_STATUS_CODE_OLD,
        semconv.RPC_RESPONSE_STATUS_CODE, semconv.DB_SYSTEM_NAME, semconv.DB_SYSTEM_OLD,
        semconv.DB_OPERATION_NAME, semconv.GEN_AI_OPERATION_NAME, semconv.GEN_AI_PROVIDER_NAME,
        semconv.GEN_AI_SYSTEM_OLD, semconv.GEN_AI_REQUEST_MODEL, semconv.GEN_AI_RESPONSE_MODEL,
        semconv.GEN_AI_RESPONSE_FINISH_REASONS, semconv.MCP_METHOD_NAME,
        semconv.OPENINFERENCE_SPAN_KIND, semconv.OPENINFERENCE_MODEL,
        semconv.OPENINFERENCE_EMBEDDING_MODEL, semconv.OPENINFERENCE_FINISH_REASON,
        semconv.TRACELOOP_SPAN_KIND, semconv.TRACELOOP_REQUEST_TYPE, semconv.LANGFUSE_TYPE,
        semconv.AI_SDK_OPERATION, semconv.AI_SDK_MODEL, semconv.AI_SDK_FINISH_REASON,
        semconv.LANGFUSE_MODEL, semconv.LOGFIRE_SPAN_TYPE, semconv.TRITON_MODEL_NAME,
        semconv.SGLANG_MODULE, semconv.SGLANG_THREAD, semconv.RUST_NAMESPACE,
        semconv.RUST_MODULE,
    }
)  # fmt: skip
"""Keys that a rule asks for by value: it always belongs to the shape."""


def may_vary(key: str) -> bool:
    """Tell if an attribute may be handed in a column, as those of `PACKED` are.

    It then should, once it has had `MOST_VALUES` values: a score or an id in every span would
    else make a shape of each.
    """
    return key not in RULED and key not in COUNTS and is_read(key)


def is_read(key: str) -> bool:
    """Tell if an attribute of this name makes a difference to a request, below its own span.

    Most do: they are what requests are asked for by (`analysis.tail.cohort_attributes`). Where
    a request's own span has no route, and where calls failed, the address is read as well, from
    the whole span.
    """
    return key not in UNREAD


def varies(key: str, value: AttributeValue, learned: Container[str] = ()) -> bool:
    """Tell if a value is handed in a column of its own; else it belongs to the span's shape.

    Args:
        key: The attribute's.
        value: Its value.
        learned: The keys that had many values (see `may_vary`).
    """
    if key in COUNTS:
        return type(value) is int and -(1 << 63) <= value < 1 << 63
    return (key in PACKED or key in learned) and type(value) in _VARYING
