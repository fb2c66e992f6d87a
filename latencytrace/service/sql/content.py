"""What counts as content, whoever sent it: the one list, and the SQL that keeps it out.

Docs: `docs/pages/privacy.md`. The patterns are matched without regard to case against whole
keys; `*` stands for any characters. One automaton matches them all, however many they are
(`tests/benchmarks/bench_ingest.py` says what it costs).
"""

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from latencytrace.model import semconv

KEPT, REMOVED, CUT = range(3)  # what becomes of an attribute; CUT: its value is an address
MARK: Final = semconv.CONTENT_REMOVED  # stands in the place of content
UNKNOWN_BYTES: Final = 256  # of a value whose key no list below knows; longer is content
NAME_CHARACTERS: Final = 256  # of the name of a span or an event

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
    "LlamaIndex": ("query", "response", "request", "result", "results", "str_or_query_bundle",
                   "template*", "payload"),
    "TGI and TEI": ("generation", "ids"),
    "others": (
        "agentops.*input*", "agentops.*output*", "braintrust.*", "gcp.vertex.agent.*data*",
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

# Whole keys that are kept without being matched: those that most spans have, for speed, and
# those whose values may be long.
KNOWN: Final = (
    "gen_ai.completion.0.finish_reason", "gen_ai.prompt.name",
    "langfuse.observation.completion_start_time", "langfuse.observation.cost_details",
    "langfuse.observation.usage_details", "messaging.message.conversation_id",
    "rpc.message.type",
    "client.address", "client.port", "cloud.region", "container.id", "db.collection.name",
    "db.namespace", "db.operation.batch.size", "db.operation.name", "db.query.summary",
    "db.response.returned_rows", "db.system", "db.system.name", "deployment.environment.name",
    "embedding.model_name", "error.type", "exception.escaped", "exception.type",
    "gen_ai.operation.name", "gen_ai.output.type", "gen_ai.provider.name",
    "gen_ai.request.max_tokens", "gen_ai.request.model", "gen_ai.request.temperature",
    "gen_ai.response.finish_reasons", "gen_ai.response.id", "gen_ai.response.model",
    "gen_ai.response.time_to_first_chunk", "gen_ai.system", "gen_ai.usage.completion_tokens",
    "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.prompt_tokens",
    "host.name", "http.flavor", "http.host", "http.method", "http.request.body.size",
    "http.request.method", "http.response.body.size", "http.response.status_code",
    "http.route", "http.scheme", "http.server_name", "http.status_code", "http.user_agent",
    "k8s.pod.name", "llm.model_name", "llm.request.type", "llm.usage.total_tokens",
    "message.id", "message.type", "messaging.message.id", "net.host.name", "net.host.port",
    "net.peer.ip", "net.peer.name", "net.peer.port", "network.peer.address",
    "network.peer.port", "network.protocol.name", "network.protocol.version",
    "network.transport", "openinference.span.kind", "process.pid", "rpc.grpc.status_code",
    "rpc.method", "rpc.service", "rpc.system", "rpc.system.name", "server.address",
    "server.port", "service.instance.id", "service.name", "service.version",
    "telemetry.sdk.language", "telemetry.sdk.name", "telemetry.sdk.version", "thread.id",
    "thread.name", "traceloop.entity.name", "traceloop.span.kind", "traceloop.workflow.name",
    "url.path", "url.scheme", "user_agent.original",
)  # fmt: skip

# Of these, user, password, query and fragment are cut off. Any other value that is an
# address with one of them is content.
ADDRESSES: Final = (
    "http.target", "http.url", "mcp.resource.uri", "url.full", "url.original",
)  # fmt: skip

_OURS = tuple(
    key
    for key in vars(semconv).values()
    if isinstance(key, str) and key.startswith("latencytrace.")
)
KEPT_KEYS: Final = (*KNOWN, *_OURS)
_ANY_WORD = rf"(?:.*[./:])?(?:{'|'.join(WORDS)})(?:[./:].*)?"


def _whole(patterns: Iterable[str], *more: str) -> str:
    alternatives = (re.escape(pattern).replace(r"\*", ".*") for pattern in patterns)
    return f"(?i)^(?:{'|'.join((*alternatives, *more))})$"


# The same for the engine and for Python, where `.` is any character.
STRICT_KEY: Final = _whole(STRICT)
CONTENT_KEY: Final = _whole(chain(STRICT, *CONTENT.values()), _ANY_WORD)
CUT_OFF: Final = "[?#@]|^data:"
ADDRESS: Final = r"(?s)^(?:(data:).*|((?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?(?:[^/?#]*@)?([^?#]*).*)$"
# JSON, an address with a query or a user, data.
TELLING: Final = r"(?s)^(?:[{]|\[[{]|(?:[A-Za-z][A-Za-z0-9+.-]*:/)?/.*[?#@]|data:)"
ADDRESS_IN_NAME: Final = r"(/[^ \t\n\f\r?#]*)[?#][^ \t\n\f\r]*"
LEADING_TYPE: Final = (
    r"^([A-Za-z_][A-Za-z0-9_.$]*"
    r"(?:Cancelled|Error|Exception|Exit|Failure|Fault|Interrupt|Iteration|Timeout|Warning))"
    r"(?:$|[:( \t\n\f\r])"
)


def fate(key: str, string: str, letter: str) -> str:
    """What becomes of an attribute: KEPT, CUT or REMOVED; `fates` says the same in Python.

    Each question is asked of those attributes alone that none before it has decided.

    Args:
        key: What its key is called.
        string: Its value, where that is a string.
        letter: Its value's type (see `otlp_view`).
    """
    return (
        f"multiIf({key} IN ({_listed(KEPT_KEYS)}), {KEPT}, "
        f"{letter} = 's' AND {key} IN ({_listed(ADDRESSES)}), "
        f"{CUT} * match({string}, {_quoted(CUT_OFF)}), "
        f"{letter} IN ('i', 'd', 'b'), {_matches(key, STRICT_KEY)}, "
        f"{letter} IN ('a', 'm', 'y') OR length({string}) > {UNKNOWN_BYTES}, {REMOVED}, "
        f"{_matches(key, CONTENT_KEY)} OR match({string}, {_quoted(TELLING)}))"
    )


def cut_address(text: str) -> str:
    """An address without user, password, query and fragment."""
    return f"replaceRegexpOne({text}, {_quoted(ADDRESS)}, '\\\\1\\\\2\\\\3')"


def plain_name(name: str) -> str:
    """The name of a span, without the query of an address in it."""
    # Of low cardinality, so that each distinct name of a block is looked at once.
    return _plain_name(f"toLowCardinality({name})")


def plain_names(names: str) -> str:
    """Likewise, of events."""
    return f"arrayMap(name -> {_plain_name('name')}, {names})"


def _plain_name(name: str) -> str:
    cut = f"replaceRegexpAll({name}, {_quoted(ADDRESS_IN_NAME)}, '\\\\1')"
    return f"substringUTF8({cut}, 1, {NAME_CHARACTERS})"


def plain_status(message: str) -> str:
    """The type of the exception that a status message begins with, if it does."""
    return f"extract(toLowCardinality({message}), {_quoted(LEADING_TYPE)})"


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(f"'{key}'" for key in keys)


def _matches(key: str, pattern: str) -> str:
    return f"multiMatchAny({key}, [{_quoted(pattern)}])"


def _quoted(pattern: str) -> str:
    escaped = pattern.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
