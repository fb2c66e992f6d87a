"""The keys of attributes that carry content, from any sender: the one list.

Docs: `docs/pages/privacy.md`. Patterns are matched against whole keys, without regard to
case; `*` stands for any characters.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import chain
from string import ascii_letters, digits
from typing import Final

from latencytrace.model import semconv

# A key with one of these between dots, slashes or colons is content, in every convention.
WORDS: Final = (
    "answer", "answers", "args", "arguments", "authorization", "backstory", "body", "chat_ctx",
    "chat_history", "choice", "choices", "chunks", "command_args", "command_line", "completion",
    "completions", "content", "contents", "context", "contexts", "conversation", "cookie",
    "cookies", "document", "documents", "embedding", "embeddings", "event_body", "final_result",
    "function_call", "header", "headers", "input", "input_messages", "inputs", "instructions",
    "kwargs", "message", "message_content", "messages", "metadata", "nodes", "output",
    "output_messages", "outputs", "page_content", "param", "parameter", "parameters", "params",
    "passage", "passages", "prompt", "prompt_template", "prompts", "question", "questions",
    "query_str", "query_text", "query_texts", "reasoning", "request_body", "response_body",
    "stack", "stack_trace", "stacktrace", "statement", "stop_sequences", "system_instruction",
    "system_instructions", "system_prompt", "text", "texts", "thinking", "tool_arguments",
    "tool_call", "tool_calls", "tool_response", "transcript", "user_prompt", "vector", "vectors",
)  # fmt: skip

CONTENT: Final[Mapping[str, tuple[str, ...]]] = {
    "OpenTelemetry GenAI": (
        "gen_ai.agent.description", "gen_ai.assistant.*", "gen_ai.choice*", "gen_ai.completion*",
        "gen_ai.content*", "gen_ai.evaluation.explanation", "gen_ai.input*", "gen_ai.memory.*",
        "gen_ai.output*", "gen_ai.prompt*", "gen_ai.retrieval.documents*",
        "gen_ai.retrieval.query*", "gen_ai.system.*", "gen_ai.system_instructions*",
        "gen_ai.tool.arg*", "gen_ai.tool.call.arguments*", "gen_ai.tool.call.result*",
        "gen_ai.tool.definitions*", "gen_ai.tool.description", "gen_ai.tool.result*",
        "gen_ai.tool.response*", "gen_ai.user.*", "mcp.request.argument*",
        "mcp.response.value*",
    ),
    "OpenTelemetry": (
        "db.sql*", "elasticsearch.body", "elasticsearch.params", "error",
        "error.description", "error.detail*", "error.message*", "error.msg", "error.object",
        "error.stack*", "exception.message*", "exception.stacktrace*", "graphql.*",
        "http.*.body*", "http.query*", "log.*", "messaging.*body",
        "otel.status_description", "process.command_*", "process.environment_variable*",
        "redis.commands.*", "status.message", "status_message", "url.fragment",
        "url.query", "*.cookie*", "*api_key*", "*apikey*", "*authorization*", "*password*",
        "*secret*", "*xdoc*",
    ),
    "OpenLLMetry (Traceloop)": (
        "crewai.*", "db.chroma.*", "db.lancedb.*", "db.marqo.*", "db.milvus.*", "db.pinecone.*",
        "db.*.query*", "db.*.search*", "db.qdrant.*", "db.search.*",
        "db.weaviate.*", "llm.chat.*", "llm.completions*", "llm.headers", "llm.prompt*",
        "llm.request.functions*", "traceloop.association.properties*", "traceloop.entity.input*",
        "traceloop.entity.output*", "traceloop.prompt*", "vector_db.*",
    ),
    "OpenInference": (
        "audio.*", "document.*", "embedding.*", "image.*", "input.*", "llm.choices*",
        "llm.function_call*", "llm.input*", "llm.invocation_parameters", "llm.output*",
        "llm.tools*", "message.*", "message_content.*", "metadata*", "output.*", "prompt.*",
        "reranker.*documents*", "reranker.query*", "retrieval.documents*", "tool.description",
        "tool.json_schema", "tool.parameters*", "tool_call.*",
    ),
    "Langfuse": (
        "langfuse.*input*", "langfuse.*metadata*", "langfuse.*output*", "langfuse.*prompt*",
        "langfuse.*status_message",
    ),
    "Logfire and Pydantic AI": (
        "*all_messages*", "events", "logfire.msg", "model_request_parameters", "request_data",
        "response_data", "return",
    ),
    "OpenLIT": (
        "db.documents", "db.filter", "db.metadata*", "db.payload", "db.vector", "db.where*",
        "gen_ai.data_sources", "gen_ai.request.image*", "gen_ai.response.image*",
    ),
    "MLflow": ("mlflow.*inputs*", "mlflow.*outputs*", "mlflow.chat.*", "mlflow.*message*"),
    "Vercel AI": (
        "ai.embedding*", "ai.prompt*", "ai.request.*", "ai.response.content*",
        "ai.response.files*", "ai.response.headers*", "ai.response.object*",
        "ai.response.providermetadata*", "ai.response.reasoning*", "ai.response.text*",
        "ai.response.toolcalls*", "ai.result*", "ai.schema*", "ai.settings.context*",
        "ai.telemetry.metadata*", "ai.toolcall.args", "ai.toolcall.input", "ai.toolcall.output",
        "ai.toolcall.result", "ai.value*",
    ),
    "LangSmith": ("gen_ai.event.*", "gen_ai.serialized.*", "langsmith.*metadata*",
                  "langsmith.*input*", "langsmith.*output*"),
    "Haystack": ("haystack.*input*", "haystack.*output*"),
    "LlamaIndex": ("query", "response", "request", "response.response*", "result", "results",
                   "str_or_query_bundle", "template*", "payload", "*llamaindex.step.*summary*"),
    "TGI and TEI": ("generation", "ids"),
    "others": (
        "agentops.*input*", "agentops.*output*", "braintrust.*", "crew_agents", "crew_inputs",
        "crew_output", "crew_tasks*", "formatted_description", "formatted_expected_output",
        "task_output", "gcp.vertex.agent.*data*",
        "gcp.vertex.agent.*llm_re*", "gcp.vertex.agent.*tool_*", "genkit:*", "hidden_params",
        "litellm.*request*", "litellm.*response*", "llm.*raw_response", "lk.*ctx*", "lk.*text",
        "lk.*transcript*", "lk.*_tool*", "lk.user_input", "sql.*", "weave.*",
    ),
}  # fmt: skip

# Numbers and truths are no content, whatever their key: mostly counts, under words as above.
# But they are where the rest of the key is a program's own word.
STRICT: Final = (
    "*arguments.*", "*parameters.*", "db.operation.parameter*", "db.query.parameter*",
    "db.query.result*", "db.query.text*", "db.statement*", "http.*.header*",
    "*metadata.*", "*variables.*", "*.vector.*",
)  # fmt: skip

# Whole keys that are kept, if their values are what such a key is for.
KNOWN: Final = (
    "langfuse.observation.completion_start_time", "messaging.message.conversation_id",
    "rpc.message.type",
    "client.address", "client.port", "cloud.region", "container.id", "db.collection.name",
    "db.namespace", "db.operation.batch.size", "db.operation.name", "db.query.summary",
    "db.response.returned_rows", "db.system", "db.system.name", "deployment.environment.name",
    "embedding.model_name", "error.type", "exception.escaped", "exception.type",
    "gen_ai.latency.time_to_first_token", "gen_ai.operation.name", "gen_ai.output.type",
    "gen_ai.provider.name", "gen_ai.request.choice.count", "gen_ai.request.max_tokens",
    "gen_ai.request.model",
    "gen_ai.request.temperature", "gen_ai.response.finish_reasons", "gen_ai.response.id",
    "gen_ai.response.model", "gen_ai.response.time_to_first_chunk", "gen_ai.system",
    "gen_ai.server.time_to_first_token",
    "gen_ai.token.type", "gen_ai.usage.completion_tokens", "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens", "gen_ai.usage.prompt_tokens", "host.name", "http.flavor",
    "http.host", "http.method", "http.request.body.size", "http.request.method",
    "http.response.body.size", "http.response.status_code", "http.scheme", "http.server_name",
    "http.status_code", "k8s.pod.name", "llm.model_name", "llm.request.type",
    "llm.usage.total_tokens", "message.id", "message.type", "messaging.message.id",
    "mlflow.llm.model", "mlflow.spanType",
    "net.host.name", "net.host.port", "net.peer.ip", "net.peer.name", "net.peer.port",
    "network.peer.address", "network.peer.port", "network.protocol.name",
    "network.protocol.version", "network.transport", "openinference.span.kind", "peer.service",
    "process.pid", "rpc.grpc.status_code", "rpc.method", "rpc.service", "rpc.system",
    "rpc.system.name", "sampler.param", "sampler.type", "server.address", "server.port",
    "service.instance.id", "service.name",
    "service.version", "telemetry.sdk.language", "telemetry.sdk.name", "telemetry.sdk.version",
    "thread.id", "thread.name", "time_per_token", "traceloop.entity.name",
    "traceloop.span.kind", "traceloop.workflow.name", "url.scheme",
)  # fmt: skip
LONG: Final = ("http.route", "http.user_agent", "url.path", "user_agent.original")
ADDRESSES: Final = (
    "http.target", "http.url", "mcp.resource.uri", "url.full", "url.original",
)  # fmt: skip
PACKED: Final = (
    semconv.INTERVALS, semconv.NETWORK_PHASES, semconv.RUNTIME_GAPS, semconv.TOKEN_TIMES,
)  # fmt: skip
COUNTS: Final = (
    "langfuse.observation.cost_details", "langfuse.observation.usage_details",
    "mlflow.chat.tokenUsage",
)  # fmt: skip
# The name of a prompt's template, never a prompt; the reason why an answer ended.
WORD: Final = ("gen_ai.completion.*.finish_reason", "gen_ai.prompt.name")


class Kind(StrEnum):
    """The kind of a key's values, which says what becomes of them (see `redaction`)."""

    KNOWN = "known"  # a short name of something
    LONG = "long"  # likewise, and may be long
    ADDRESS = "address"
    PACKED = "packed"  # numbers in a format of ours
    COUNTS = "counts"  # a JSON object of numbers
    WORD = "word"
    NUMBER = "number"  # of tokens and the like, also as text
    UNKNOWN = "unknown"
    CONTENT = "content"
    STRICT = "strict"  # content, numbers too
    NAMELESS = "nameless"  # the key itself may be content


LONGEST_KEY: Final = 128
PLAIN_CHARACTERS: Final = ascii_letters + digits + "_.:/-"
_PLAIN_KEY = re.compile(rf"[{PLAIN_CHARACTERS}]{{1,{LONGEST_KEY}}}")
_OURS = tuple(
    key
    for key in vars(semconv).values()
    if isinstance(key, str) and key.startswith("latencytrace.")
)
LISTED: Final = {
    **dict.fromkeys((*KNOWN, *_OURS), Kind.KNOWN),
    **dict.fromkeys(LONG, Kind.LONG),
    **dict.fromkeys(ADDRESSES, Kind.ADDRESS),
    **dict.fromkeys(PACKED, Kind.PACKED),
    **dict.fromkeys(COUNTS, Kind.COUNTS),
}


def _whole(patterns: Iterable[str], *more: str) -> re.Pattern[str]:
    alternatives = (re.escape(pattern).replace(r"\*", ".*") for pattern in patterns)
    return re.compile("|".join((*alternatives, *more)), re.IGNORECASE | re.ASCII)


_WORD_KEY = _whole(WORD)
_STRICT_KEY = _whole(STRICT)
_ANY_WORD = rf"(?:.*[./:])?(?:{'|'.join(WORDS)})(?:[./:].*)?"
_CONTENT_KEY = _whole(chain(*CONTENT.values()), _ANY_WORD)
_SECRET_KEY = re.compile(
    r"authorization|bearer|passw(?:or)?d|passphrase|pwd|secret|credential"
    r"|(?:access|api|private|session|signing)[_.-]?key",
    re.IGNORECASE,
)
_TOKEN_KEY = re.compile(r"token(?!iz)", re.IGNORECASE)
# How many tokens there were, and how long they took, is no secret.
_TOKEN_NUMBER_KEY = re.compile(
    r"tokens|token[_.]?(?:count|rate|time|latency)|(?:per|first|last|inter)[_.](?:\w+[_.])?token",
    re.IGNORECASE,
)


_SECRET_PARTS = (
    "authorization", "bearer", "passw", "passphrase", "pwd", "secret", "credential", "key",
    "token",
)  # fmt: skip
TELLING_PARTS: Final = frozenset(
    max(pattern.split("*"), key=len)[:6]
    for pattern in (*chain(*CONTENT.values()), *STRICT, *WORD, *WORDS, *_SECRET_PARTS)
)
"""A plain key that is not listed and has none of these, in any case, is of an unknown kind."""


def kind_of(key: str) -> Kind:
    """Return what the values under a key are."""
    listed = LISTED.get(key)
    if listed is not None:
        return listed
    if not _PLAIN_KEY.fullmatch(key):
        return Kind.NAMELESS
    if _WORD_KEY.fullmatch(key):
        return Kind.WORD
    if _STRICT_KEY.fullmatch(key):
        return Kind.STRICT
    if _TOKEN_NUMBER_KEY.search(key) and not _SECRET_KEY.search(key):
        return Kind.NUMBER
    is_secret = _SECRET_KEY.search(key) or _TOKEN_KEY.search(key)
    return Kind.CONTENT if is_secret or _CONTENT_KEY.fullmatch(key) else Kind.UNKNOWN
