"""The tables that find the stage of any span, of any sender."""

from collections.abc import Callable, Mapping

from latencytrace.analysis.dialects.engine import Asked
from latencytrace.analysis.trace.asgi_messages import message_stage
from latencytrace.analysis.trace.is_request import ENTRY_KINDS
from latencytrace.analysis.trace.known_engines import engine_of
from latencytrace.model import Span, SpanKind, Stage, semconv
from latencytrace.model.stage import TOKENIZING, stage_named

# Haystack's tracer is called by programs as they like: its spans are known by their names.
_HAYSTACK_STAGES = {
    "haystack.agent.hook": Stage.UNATTRIBUTED,
    "haystack.agent.run": Stage.UNATTRIBUTED,
    "haystack.agent.step": Stage.UNATTRIBUTED,
    "haystack.agent.step.llm": Stage.REMOTE_MODEL,
    "haystack.agent.step.tool": Stage.TOOL,
    "haystack.chat_generator.run": Stage.REMOTE_MODEL,
    "haystack.pipeline.run": Stage.UNATTRIBUTED,
}
_HAYSTACK_COMPONENT = "haystack.component.run"
_HAYSTACK_TYPES = {  # how the names of their types end
    "Agent": Stage.UNATTRIBUTED,
    "Builder": Stage.PREPROCESS,
    "Embedder": Stage.EMBED,
    "Generator": Stage.REMOTE_MODEL,
    "Joiner": Stage.UNATTRIBUTED,
    "Ranker": Stage.RERANK,
    "Retriever": Stage.RETRIEVE,
    "Router": Stage.UNATTRIBUTED,
    "ToolInvoker": Stage.TOOL,
    "WebSearch": Stage.RETRIEVE,
}


def haystack_stage(span: Span) -> Stage | None:
    """The stage of what a pipeline or an agent runs; None: it is not Haystack's."""
    if span.name != _HAYSTACK_COMPONENT:
        return _HAYSTACK_STAGES.get(span.name)
    found = span.attributes.get(semconv.HAYSTACK_COMPONENT_TYPE)
    of_type = found if isinstance(found, str) else ""
    return next((stage for end, stage in _HAYSTACK_TYPES.items() if of_type.endswith(end)), None)


_OURS = {stage.value: stage for stage in Stage}

# Tables by attribute, the first that knows its value wins. Framework spans (an agent's
# loop, a chain) explain nothing: what only they cover is unattributed.
_BY_ATTRIBUTE: tuple[tuple[str, Mapping[str, Stage]], ...] = (
    (
        semconv.GEN_AI_OPERATION_NAME,
        {
            "chat": Stage.REMOTE_MODEL,
            "text_completion": Stage.REMOTE_MODEL,
            "generate_content": Stage.REMOTE_MODEL,
            "image_generation": Stage.REMOTE_MODEL,
            "speech": Stage.REMOTE_MODEL,
            "transcription": Stage.REMOTE_MODEL,
            "embeddings": Stage.EMBED,
            "embedding": Stage.EMBED,  # LiteLLM
            "retrieval": Stage.RETRIEVE,
            "vector_db_retrieve": Stage.RETRIEVE,  # OpenLLMetry
            "search_memory": Stage.RETRIEVE,
            "rerank": Stage.RERANK,
            "execute_tool": Stage.TOOL,
            "execute_task": Stage.UNATTRIBUTED,  # OpenLLMetry
            "invoke_agent": Stage.UNATTRIBUTED,
            "create_agent": Stage.UNATTRIBUTED,
            "invoke_workflow": Stage.UNATTRIBUTED,
            "plan": Stage.UNATTRIBUTED,
            "execute_event_loop_cycle": Stage.UNATTRIBUTED,  # Strands
        },
    ),
    (
        semconv.OPENINFERENCE_SPAN_KIND,
        {
            "LLM": Stage.REMOTE_MODEL,
            "EMBEDDING": Stage.EMBED,
            "RETRIEVER": Stage.RETRIEVE,
            "RERANKER": Stage.RERANK,
            "TOOL": Stage.TOOL,
            "GUARDRAIL": Stage.GUARDRAIL,
            "PROMPT": Stage.PREPROCESS,
            "CHAIN": Stage.UNATTRIBUTED,
            "AGENT": Stage.UNATTRIBUTED,
        },
    ),
    (
        semconv.TRACELOOP_SPAN_KIND,
        {
            "tool": Stage.TOOL,
            "workflow": Stage.UNATTRIBUTED,
            "task": Stage.UNATTRIBUTED,
            "agent": Stage.UNATTRIBUTED,
        },
    ),
    (
        semconv.TRACELOOP_REQUEST_TYPE,
        {
            "chat": Stage.REMOTE_MODEL,
            "completion": Stage.REMOTE_MODEL,
            "embedding": Stage.EMBED,
            "rerank": Stage.RERANK,
        },
    ),
    (
        semconv.LANGFUSE_TYPE,
        {
            "generation": Stage.REMOTE_MODEL,
            "embedding": Stage.EMBED,
            "retriever": Stage.RETRIEVE,
            "tool": Stage.TOOL,
            "guardrail": Stage.GUARDRAIL,
            "agent": Stage.UNATTRIBUTED,
            "chain": Stage.UNATTRIBUTED,
            "event": Stage.UNATTRIBUTED,
            "span": Stage.UNATTRIBUTED,
        },
    ),
    (
        semconv.LANGSMITH_KIND,
        {
            "llm": Stage.REMOTE_MODEL,
            "embedding": Stage.EMBED,
            "retriever": Stage.RETRIEVE,
            "tool": Stage.TOOL,
            "prompt": Stage.PREPROCESS,
            "parser": Stage.POSTPROCESS,
            "chain": Stage.UNATTRIBUTED,
        },
    ),
    (
        semconv.MLFLOW_TYPE,  # as JSON
        {
            '"CHAT_MODEL"': Stage.REMOTE_MODEL,
            '"LLM"': Stage.REMOTE_MODEL,
            '"EMBEDDING"': Stage.EMBED,
            '"RETRIEVER"': Stage.RETRIEVE,
            '"RERANKER"': Stage.RERANK,
            '"TOOL"': Stage.TOOL,
            '"GUARDRAIL"': Stage.GUARDRAIL,
            '"PARSER"': Stage.POSTPROCESS,
            '"AGENT"': Stage.UNATTRIBUTED,
            '"CHAIN"': Stage.UNATTRIBUTED,
            '"TASK"': Stage.UNATTRIBUTED,
            '"WORKFLOW"': Stage.UNATTRIBUTED,
        },
    ),
    (semconv.MCP_METHOD_NAME, {"tools/call": Stage.TOOL}),
)

_DATABASE_SYSTEMS = (semconv.DB_SYSTEM_NAME, semconv.DB_SYSTEM_OLD)
_VECTOR_DATABASES = frozenset(
    {
        "chroma", "chromadb", "faiss", "hnswlib", "lancedb", "marqo", "milvus", "pgvector",
        "pinecone", "qdrant", "usearch", "weaviate",
    }
)  # fmt: skip

CHROMADB_SCOPE = "chromadb.telemetry.opentelemetry"  # its own tracing, of its own methods
_CHROMADB_WRITES = ("add", "delete", "modify", "submit", "update", "upsert", "write")

_SEARCH_ENGINES = frozenset({"elasticsearch", "opensearch"})
_SEARCHES = frozenset({"knn_search", "msearch", "search"})

_CALLS = (
    semconv.HTTP_REQUEST_METHOD,
    semconv.HTTP_METHOD_OLD,
    semconv.RPC_SYSTEM_NAME,
    semconv.RPC_SYSTEM_OLD,
)

# Hosts of models behind an API: no server span of theirs is ever in a trace.
_MODEL_HOSTS = (
    "api.anthropic.com", "api.cohere.com", "api.deepseek.com", "api.fireworks.ai", "api.groq.com",
    "api.mistral.ai", "api.openai.com", "api.perplexity.ai", "api.together.xyz", "api.x.ai",
    "api-inference.huggingface.co", "generativelanguage.googleapis.com", "openrouter.ai",
    "router.huggingface.co",
    "-aiplatform.googleapis.com", ".cognitiveservices.azure.com", ".openai.azure.com",
)  # fmt: skip

_FRAMEWORK_SCOPES = (
    "fastapi", "starlette", "opentelemetry.instrumentation.asgi",
    "@fastify/otel", "@opentelemetry/instrumentation-connect",
    "@opentelemetry/instrumentation-express", "@opentelemetry/instrumentation-fastify",
    "@opentelemetry/instrumentation-hapi", "@opentelemetry/instrumentation-koa",
    "@opentelemetry/instrumentation-nestjs-core", "@opentelemetry/instrumentation-restify",
    "@opentelemetry/instrumentation-router", "io.opentelemetry.spring-web",
)  # fmt: skip
_CONNECTION_SCOPES = ("@opentelemetry/instrumentation-dns", "@opentelemetry/instrumentation-net")

# The names of Chroma's spans are read as a whole: they are those of its methods.
ASKED = Asked(
    words=frozenset(
        {
            *_OURS, *(word for _, table in _BY_ATTRIBUTE for word in table), *_VECTOR_DATABASES,
            *_SEARCH_ENGINES, *_SEARCHES, CHROMADB_SCOPE, *_CONNECTION_SCOPES, *_HAYSTACK_STAGES,
            _HAYSTACK_COMPONENT,
        }
    ),
    starts=_FRAMEWORK_SCOPES,
    ends=(*_HAYSTACK_TYPES, *_MODEL_HOSTS),
    parts=(TOKENIZING,),
)  # fmt: skip


def stage_of(span: Span) -> Stage:
    """The stage that a span's own time belongs to.

    Our attribute comes first, then the table of the engine that made the span (see
    `analysis.engines`), then the semantic conventions, old names and new ones, then a name
    that is a stage's or a tokenizer's.
    Framework spans (server, endpoint, chain, a root that names no stage) have none:
    UNATTRIBUTED. OTHER is what no table knows.
    """
    for rule in _RULES:
        stage = rule(span)
        if stage is not None:
            return stage
    return Stage.OTHER


def _ours(span: Span) -> Stage | None:
    name = span.attributes.get(semconv.STAGE)
    return _OURS.get(name) if isinstance(name, str) else None


def _engine(span: Span) -> Stage | None:
    engine = engine_of(span)
    if engine is None:
        return None
    stage = engine.stages.get(span.name)
    return engine.stage(span) if stage is None else stage


def _entry(span: Span) -> Stage | None:
    return Stage.UNATTRIBUTED if span.kind in ENTRY_KINDS else None


def _by_attribute(span: Span) -> Stage | None:
    for key, table in _BY_ATTRIBUTE:
        value = span.attributes.get(key)
        if isinstance(value, str) and value in table:
            return table[value]
    return None


def _database(span: Span) -> Stage | None:
    for key in _DATABASE_SYSTEMS:
        system = span.attributes.get(key)
        if isinstance(system, str):
            retrieves = system.lower() in _VECTOR_DATABASES or (
                system.lower() in _SEARCH_ENGINES
                and span.attributes.get(semconv.DB_OPERATION_NAME) in _SEARCHES
            )
            return Stage.RETRIEVE if retrieves else Stage.DATABASE
    return None


def _chromadb(span: Span) -> Stage | None:
    if span.scope != CHROMADB_SCOPE:
        return None
    method = span.name.rpartition(".")[2].lstrip("_")
    return Stage.DATABASE if method.startswith(_CHROMADB_WRITES) else Stage.RETRIEVE


def _call(span: Span) -> Stage | None:
    if span.scope in _CONNECTION_SCOPES:
        return Stage.NETWORK
    if span.kind is not SpanKind.CLIENT or not any(key in span.attributes for key in _CALLS):
        return None
    host = span.attributes.get(semconv.SERVER_ADDRESS)
    of_model = isinstance(host, str) and host.lower().endswith(_MODEL_HOSTS)
    return Stage.REMOTE_MODEL if of_model else Stage.NETWORK


def _by_name(span: Span) -> Stage | None:
    """Return what is below a request; a job that is called `load` is one of its own."""
    stage = stage_named(span.name)
    return stage if stage is not None and stage.explains else None


def _producer(span: Span) -> Stage | None:
    """Return the queue for handing a message over and waiting for the answer."""
    return Stage.QUEUE if span.kind is SpanKind.PRODUCER and span.parent_id is not None else None


def _framework(span: Span) -> Stage | None:
    is_framework = span.parent_id is None or span.scope.startswith(_FRAMEWORK_SCOPES)
    return Stage.UNATTRIBUTED if is_framework else None


_RULES: tuple[Callable[[Span], Stage | None], ...] = (
    _ours,
    _engine,
    _entry,
    _by_attribute,
    _database,
    _chromadb,
    haystack_stage,
    message_stage,
    _call,
    _producer,
    _framework,
    _by_name,
)
