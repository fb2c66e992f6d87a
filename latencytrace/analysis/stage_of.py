"""The tables that find the stage of any span, whoever sent it."""

from collections.abc import Callable

from latencytrace.model import Span, SpanKind, Stage, semconv

_BY_NAME = {stage.value: stage for stage in Stage}

_OPERATIONS = {  # gen_ai.operation.name
    "chat": Stage.REMOTE_MODEL,
    "text_completion": Stage.REMOTE_MODEL,
    "generate_content": Stage.REMOTE_MODEL,
    "embeddings": Stage.EMBED,
    "retrieval": Stage.RETRIEVE,
    "execute_tool": Stage.TOOL,
}

_VECTOR_DATABASES = frozenset(
    {
        "chroma", "chromadb", "faiss", "hnswlib", "lancedb", "marqo", "milvus", "pgvector",
        "pinecone", "qdrant", "usearch", "weaviate",
    }
)  # fmt: skip

_FRAMEWORK_SCOPES = ("fastapi", "starlette", "opentelemetry.instrumentation.asgi")
_FRAMEWORK_KINDS = frozenset({"CHAIN", "AGENT", "workflow", "task"})  # OpenInference, Traceloop


def stage_of(span: Span) -> Stage:
    """The stage that a span's own time belongs to.

    Our attribute comes first, then the semantic conventions, old names and new ones.
    Framework spans (server, endpoint, chain) have none: UNATTRIBUTED.
    """
    for rule in _RULES:
        stage = rule(span)
        if stage is not None:
            return stage
    return Stage.OTHER


def _named(span: Span) -> Stage | None:
    name = span.attributes.get(semconv.STAGE)
    return _BY_NAME.get(name) if isinstance(name, str) else None


def _generative(span: Span) -> Stage | None:
    operation = span.attributes.get(semconv.GEN_AI_OPERATION_NAME)
    return _OPERATIONS.get(operation) if isinstance(operation, str) else None


def _database(span: Span) -> Stage | None:
    attributes = span.attributes
    system = attributes.get(semconv.DB_SYSTEM_NAME) or attributes.get(semconv.DB_SYSTEM_OLD)
    if system is None:
        return None
    return Stage.RETRIEVE if str(system).lower() in _VECTOR_DATABASES else Stage.DATABASE


def _client(span: Span) -> Stage | None:
    if span.kind is not SpanKind.CLIENT:
        return None
    calls = (
        semconv.HTTP_REQUEST_METHOD,
        semconv.HTTP_METHOD_OLD,
        semconv.RPC_SYSTEM_NAME,
        semconv.RPC_SYSTEM_OLD,
    )
    return Stage.NETWORK if any(key in span.attributes for key in calls) else None


def _asgi_message(span: Span) -> Stage | None:
    if span.name.endswith(" http send"):  # one a chunk, of contrib's ASGI middleware
        return Stage.RESPOND
    return Stage.NETWORK if span.name.endswith(" http receive") else None


def _framework(span: Span) -> Stage | None:
    attributes = span.attributes
    kinds = {attributes.get("openinference.span.kind"), attributes.get("traceloop.span.kind")}
    is_framework = (
        span.parent_id is None
        or span.kind in {SpanKind.SERVER, SpanKind.CONSUMER}
        or span.scope.startswith(_FRAMEWORK_SCOPES)
        or not kinds.isdisjoint(_FRAMEWORK_KINDS)
    )
    return Stage.UNATTRIBUTED if is_framework else None


_RULES: tuple[Callable[[Span], Stage | None], ...] = (
    _named,
    _generative,
    _database,
    _asgi_message,
    _client,
    _framework,
)
