"""The attributes that OpenTelemetry's conventions ask for on the metrics of a request."""

from collections.abc import Iterator
from typing import NamedTuple

from latencytrace.analysis.tokens.latency import TokenLatency
from latencytrace.analysis.trace.known_engines import engine_of
from latencytrace.analysis.trace.routes import METHODS
from latencytrace.model import (
    AttributeValue,
    MetricAttributes,
    RequestStatus,
    Span,
    SpanKind,
    semconv,
)

MOST_CHARACTERS = 200  # of one attribute

_CALLING = frozenset({SpanKind.CLIENT, SpanKind.PRODUCER})
# What a span says of its operation: the attribute, and what the conventions call its values.
_OPERATIONS = (
    (semconv.OPENINFERENCE_SPAN_KIND, {"LLM": "chat", "EMBEDDING": "embeddings"}),
    (
        semconv.TRACELOOP_REQUEST_TYPE,
        {"chat": "chat", "completion": "text_completion", "embedding": "embeddings"},
    ),
    (semconv.LANGFUSE_TYPE, {"generation": "chat", "embedding": "embeddings"}),
    (
        semconv.MLFLOW_TYPE,
        {'"CHAT_MODEL"': "chat", '"LLM"': "text_completion", '"EMBEDDING"': "embeddings"},
    ),
)
_PROVIDERS = {  # by the engine that made the call's span
    "vLLM": "vllm",
    "SGLang": "sglang",
    "TGI": "tgi",
    "TEI": "tei",
    "Triton": "triton",
    "TensorRT-LLM": "tensorrt_llm",
}
_FIRST_SERVER_ERROR = 500

Pairs = tuple[tuple[str, str | int], ...]
_Pairs = Iterator[tuple[str, str | int]]


def metric_attributes(root: Span, tokens: TokenLatency, status: RequestStatus) -> MetricAttributes:
    """Return what the conventions' metrics say of a request.

    Args:
        tokens: Which model served it, as its spans tell.

    Returns:
        For HTTP what a server span says of its request. For generative AI what the call says
        that reported the request's model; nothing for a program that only calls a model
        elsewhere, nor for a model that says neither tokens nor an operation.
    """
    call = tokens.model_call
    tells_tokens = tokens.input_tokens is not None or tokens.output_tokens is not None
    return of_parts(
        of_root(root, status), None if call is None else of_call(call, tokens.model), tells_tokens
    )


class OfRoot(NamedTuple):
    """The part that a request's own span decides."""

    http: Pairs
    error_type: str | None
    server: Pairs  # of its generative AI
    is_served: bool  # it is no call of a model elsewhere


class OfCall(NamedTuple):
    """The part that the call of the model decides."""

    pairs: Pairs
    has_operation: bool


def of_root(root: Span, status: RequestStatus) -> OfRoot:
    method = _first(root, semconv.HTTP_REQUEST_METHOD, semconv.HTTP_METHOD_OLD)
    is_http = root.kind is SpanKind.SERVER and method
    return OfRoot(
        tuple(_http(root, str(method).upper())) if is_http else (),
        _error_type(root, status),
        tuple(_server(root)),
        root.kind not in _CALLING,
    )


def of_call(call: Span, model: str | None) -> OfCall:
    operation = _operation(call)
    return OfCall(tuple(_gen_ai(call, operation, model)), bool(operation))


def of_parts(root: OfRoot, call: OfCall | None, tells_tokens: bool) -> MetricAttributes:  # noqa: FBT001 - of a request
    """Put both parts together."""
    gen_ai: Pairs = ()
    if call is not None and root.is_served and (call.has_operation or tells_tokens):
        gen_ai = call.pairs + root.server
    return MetricAttributes(http=root.http, gen_ai=gen_ai, error_type=root.error_type)


def _http(root: Span, method: str) -> _Pairs:
    yield semconv.HTTP_REQUEST_METHOD, method if method in METHODS else semconv.OTHER
    yield from _texts(root, semconv.HTTP_ROUTE, semconv.HTTP_ROUTE)
    yield from _texts(root, semconv.URL_SCHEME, semconv.URL_SCHEME, semconv.HTTP_SCHEME_OLD)
    yield from _texts(
        root,
        semconv.NETWORK_PROTOCOL_VERSION,
        semconv.NETWORK_PROTOCOL_VERSION,
        semconv.HTTP_FLAVOR_OLD,
    )
    code = _code(root)
    if code is not None:
        yield semconv.HTTP_RESPONSE_STATUS_CODE, code


def _gen_ai(call: Span, operation: str | None, model: str | None) -> _Pairs:
    if operation:
        yield semconv.GEN_AI_OPERATION_NAME, operation
    engine = engine_of(call)
    provider = _first(call, semconv.GEN_AI_PROVIDER_NAME, semconv.GEN_AI_SYSTEM_OLD)
    if provider is None and engine is not None:
        provider = _PROVIDERS.get(engine.name)
    if provider:
        yield semconv.GEN_AI_PROVIDER_NAME, _text(provider)
    asked = call.attributes.get(semconv.GEN_AI_REQUEST_MODEL) or model
    if asked:
        yield semconv.GEN_AI_REQUEST_MODEL, _text(asked)
    yield from _texts(call, semconv.GEN_AI_RESPONSE_MODEL, semconv.GEN_AI_RESPONSE_MODEL)


def _server(root: Span) -> _Pairs:
    yield from _texts(root, semconv.SERVER_ADDRESS, semconv.SERVER_ADDRESS)
    port = root.attributes.get(semconv.SERVER_PORT)
    if isinstance(port, int) and root.attributes.get(semconv.SERVER_ADDRESS):
        yield semconv.SERVER_PORT, port


def _operation(call: Span) -> str | None:
    reported = call.attributes.get(semconv.GEN_AI_OPERATION_NAME)
    if reported:
        return _text(reported)
    for key, names in _OPERATIONS:
        name = names.get(str(call.attributes.get(key)))
        if name:
            return name
    return None


def _error_type(root: Span, status: RequestStatus) -> str | None:
    reported = root.attributes.get(semconv.ERROR_TYPE)
    if reported:
        return _text(reported)
    code = _code(root)
    if code is not None and code >= _FIRST_SERVER_ERROR:
        return str(code)
    if status is RequestStatus.OK:
        return None
    return semconv.OTHER if status is RequestStatus.ERROR else status.value


def _code(root: Span) -> int | None:
    code = _first(root, semconv.HTTP_RESPONSE_STATUS_CODE, semconv.HTTP_STATUS_CODE_OLD)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _texts(span: Span, name: str, *keys: str) -> _Pairs:
    found = _first(span, *keys)
    if found:
        yield name, _text(found)


def _first(span: Span, *keys: str) -> AttributeValue:
    for key in keys:
        found = span.attributes.get(key)
        if found is not None and found != "":
            return found
    return None


def _text(value: AttributeValue) -> str:
    return str(value)[:MOST_CHARACTERS]
