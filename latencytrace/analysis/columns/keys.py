"""The attributes that the analysis asks for by name, by how columns hold them."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.calls.retries import METHODS, TARGETS
from latencytrace.analysis.tail.cohort_attributes import LEFT_OUT
from latencytrace.analysis.tokens.counts import FINISH_REASON, MODEL, TELLING
from latencytrace.analysis.trace.known_engines import ENGINES
from latencytrace.analysis.trace.weight import STATED_IN
from latencytrace.model import semconv

COUNTS: Final = frozenset(
    {
        semconv.GEN_AI_USAGE_INPUT_TOKENS, semconv.GEN_AI_USAGE_INPUT_TOKENS_OLD,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS, semconv.GEN_AI_USAGE_OUTPUT_TOKENS_OLD,
        semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS, semconv.GEN_AI_USAGE_CACHED_TOKENS_OLD,
        semconv.GEN_AI_USAGE_CACHE_READ_TOKENS_OLD,
        semconv.OPENINFERENCE_INPUT_TOKENS, semconv.OPENINFERENCE_OUTPUT_TOKENS,
        semconv.OPENINFERENCE_CACHED_INPUT_TOKENS, semconv.GEN_AI_REQUEST_N,
        semconv.GEN_AI_REQUEST_CHOICES,
        semconv.STREAMED_TOKENS, semconv.STREAMED_EVENTS, semconv.STREAMED_FIRST_BODY,
        semconv.STREAMED_CHOICES, semconv.CONCURRENCY, semconv.QUEUE_DEPTH,
        semconv.PREEMPTIONS, semconv.QUEUED_NS, semconv.BATCH_SIZE,
        semconv.PROCESSOR_WAIT_NS,
    }
)  # fmt: skip
"""Whole numbers that are read off each span: columns of int64, sparse."""

PACKED: Final = frozenset(
    {
        semconv.INTERVALS, semconv.TOKEN_TIMES, semconv.RUNTIME_GAPS,
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, semconv.LATENCY_TO_FIRST,
    }
)  # fmt: skip
"""Texts, bytes and numbers that are read off each span: handed as they are, sparse."""

RULED: Final = frozenset(
    {
        semconv.STAGE, semconv.SHARED, semconv.ASGI_EVENT_TYPE, semconv.STARTUP,
        semconv.ERROR_TYPE, semconv.HTTP_RESPONSE_STATUS_CODE, semconv.HTTP_STATUS_CODE_OLD,
        semconv.HTTP_REQUEST_RESEND_COUNT, semconv.RPC_RESPONSE_STATUS_CODE,
        semconv.RPC_GRPC_STATUS_CODE_OLD, semconv.SERVER_ADDRESS, semconv.DB_SYSTEM_NAME,
        semconv.DB_SYSTEM_OLD, semconv.DB_OPERATION_NAME, semconv.GEN_AI_OPERATION_NAME,
        semconv.MCP_METHOD_NAME, semconv.OPENINFERENCE_SPAN_KIND, semconv.TRACELOOP_SPAN_KIND,
        semconv.TRACELOOP_REQUEST_TYPE, semconv.LANGFUSE_TYPE, semconv.LANGSMITH_KIND,
        semconv.MLFLOW_TYPE, semconv.HAYSTACK_COMPONENT_TYPE, semconv.LOGFIRE_SPAN_TYPE,
        semconv.SGLANG_MODULE, semconv.RUST_NAMESPACE, semconv.RUST_MODULE,
        semconv.DYNAMO_ROLE,
    }
)  # fmt: skip
"""Keys whose value a rule asks for: it is part of a span's shape, as far as rules know it."""

THERE: Final = TELLING | {
    semconv.HTTP_REQUEST_METHOD, semconv.HTTP_METHOD_OLD, semconv.RPC_SYSTEM_NAME,
    semconv.RPC_SYSTEM_OLD, semconv.SGLANG_THREAD, semconv.TRITON_MODEL_NAME,
    semconv.LITELLM_CALL_ID, semconv.LATENCY_IN_PREFILL, semconv.TGI_BATCH_SIZE,
    semconv.QUEUED_NS, semconv.INTERVALS, semconv.RUNTIME_GAPS, semconv.STREAMED_FIRST_BODY,
    semconv.LOGFIRE_DURATION, semconv.DEVICE_ID, semconv.AI_SDK_OPERATION,
    semconv.MAX_BATCH_ID,
    *(key for engine in ENGINES for key in engine.reported_in or () if key not in RULED),
}  # fmt: skip
"""Keys of which rules ask whether they are there, and with what kind of value."""

ADDRESSES: Final = (
    semconv.URL_PATH, semconv.HTTP_TARGET_OLD, semconv.URL_FULL, semconv.HTTP_URL_OLD,
)  # fmt: skip

OF_REQUESTS: Final = frozenset(
    {
        semconv.HTTP_ROUTE, semconv.HTTP_REQUEST_METHOD, semconv.HTTP_METHOD_OLD,
        semconv.CANCELLED, semconv.HTTP_RESPONSE_STATUS_CODE, semconv.HTTP_STATUS_CODE_OLD,
        semconv.RPC_RESPONSE_STATUS_CODE, semconv.RPC_GRPC_STATUS_CODE_OLD, semconv.ERROR_TYPE,
        semconv.DETAIL, semconv.URL_SCHEME, semconv.HTTP_SCHEME_OLD,
        semconv.NETWORK_PROTOCOL_VERSION, semconv.HTTP_FLAVOR_OLD, semconv.SERVER_ADDRESS,
        semconv.SERVER_PORT,
    }
)  # fmt: skip
"""Keys that are asked of the span of a request itself, beside its addresses."""

OF_CALLS: Final = frozenset(
    {
        *MODEL.keys, *FINISH_REASON.keys, semconv.GEN_AI_OPERATION_NAME,
        semconv.GEN_AI_PROVIDER_NAME, semconv.GEN_AI_SYSTEM_OLD, semconv.OPENINFERENCE_SPAN_KIND,
        semconv.TRACELOOP_REQUEST_TYPE, semconv.LANGFUSE_TYPE, semconv.MLFLOW_TYPE,
    }
)  # fmt: skip
"""Keys that are asked of the span that tells a request's model, or why its answer ended."""

_BY_NAME: Final = (
    COUNTS | PACKED | RULED | THERE | OF_REQUESTS | OF_CALLS | LEFT_OUT | STATED_IN
    | {*ADDRESSES, *METHODS, *TARGETS}
)  # fmt: skip
CODES: Final[Mapping[str, int]] = {key: code for code, key in enumerate(sorted(_BY_NAME), 1)}
"""The number of each key that is asked for by name; 0: any other."""
KEYS: Final = ("", *CODES)
"""By code."""


def having(keys: frozenset[str]) -> NDArray[np.bool_]:
    """By code: whether a key is one of these."""
    return np.array([key in keys for key in KEYS], np.bool_)
