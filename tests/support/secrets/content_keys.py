"""Where other people's instrumentations put content: keys as they send them."""

from latencytrace.model import Attributes

GEN_AI = (
    "gen_ai.prompt", "gen_ai.prompt.0.content", "gen_ai.prompt.0.tool_calls.0.arguments",
    "gen_ai.completion", "gen_ai.completion.0.content", "gen_ai.completion.0.role",
    "gen_ai.completion.0.tool_calls.0.arguments", "gen_ai.input.messages",
    "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.system.message",
    "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.tool.definitions",
    "gen_ai.tool.description", "gen_ai.tool.args", "gen_ai.tool.message",
    "gen_ai.retrieval.query.text", "gen_ai.retrieval.documents", "gen_ai.evaluation.explanation",
    "gen_ai.content.prompt", "gen_ai.content.completion", "gen_ai.user.message",
    "gen_ai.assistant.message", "gen_ai.choice", "gen_ai.event.content",
    "gen_ai.agent.description", "gen_ai.memory.query.text", "gen_ai.request.stop_sequences",
    "mcp.request.argument.city", "mcp.response.value", "content", "message", "event.body",
)  # fmt: skip
OPENTELEMETRY = (
    "db.statement", "db.statement.parameters", "db.query.text", "db.query.parameter.0",
    "db.query.parameter.row_count", "db.operation.parameter.filter", "db.redis.args",
    "redis.commands.search.xdoc_0", "redis.search.xdoc_1", "url.query", "url.fragment",
    "exception.message", "exception.stacktrace", "error.message", "error.stack_trace",
    "http.request.header.authorization", "http.request.header.cookie",
    "http.request.header.content_count", "http.response.header.set_cookie", "http.request.body",
    "http.response.body.text", "rpc.request.metadata.x-key", "rpc.grpc.request.metadata.x",
    "messaging.message.body", "graphql.document", "graphql.variables.name",
    "process.command_line", "process.command_args", "otel.status_description", "code.stacktrace",
)  # fmt: skip
OPENLLMETRY = (
    "llm.prompts", "llm.prompts.0.content", "llm.completions.0.content",
    "llm.request.functions.0.description", "traceloop.entity.input", "traceloop.entity.output",
    "traceloop.prompt.template", "traceloop.prompt.template_variables.name",
    "traceloop.association.properties.note", "db.query.result.document",
    "db.query.result.metadata", "db.query.result.vector", "db.search.result.entity",
    "db.chroma.query.where", "db.chroma.query.where_document", "db.chroma.query.segment",
    "db.pinecone.query.filter", "db.qdrant.search.query", "db.milvus.search.filter",
    "db.milvus.query.filter", "db.weaviate.query.raw.gql_query", "db.marqo.search.query",
    "db.lancedb.search.query", "vector_db.query.text", "crewai.agent.backstory",
    "crewai.task.description", "llm.chat.stop_sequences",
)  # fmt: skip
OPENINFERENCE = (
    "input.value", "output.value", "llm.input_messages.0.message.content",
    "llm.input_messages.0.message.contents.0.message_content.text",
    "llm.output_messages.0.message.content",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments",
    "llm.prompts.0.prompt.text", "llm.choices.0.completion.text", "llm.prompt_template.template",
    "llm.prompt_template.variables", "llm.prompt_template.variables.name",
    "llm.invocation_parameters", "llm.function_call", "llm.tools.0.tool.json_schema",
    "retrieval.documents.0.document.content", "retrieval.documents.0.document.metadata",
    "retrieval.documents.0.document.id", "reranker.input_documents.0.document.content",
    "reranker.output_documents.0.document.content", "reranker.query",
    "embedding.embeddings.0.embedding.text", "embedding.embeddings.0.embedding.vector",
    "embedding.text", "embedding.invocation_parameters", "tool.parameters", "tool.description",
    "tool.json_schema", "metadata", "document.content", "message.content", "image.url",
    "input.audio.transcript", "output.audio.url",
)  # fmt: skip
OTHERS = (
    # TGI and TEI
    "generation", "parameters", "inputs", "ids",
    # Langfuse
    "langfuse.observation.input", "langfuse.observation.output", "langfuse.trace.input",
    "langfuse.trace.output", "langfuse.observation.metadata.note", "langfuse.trace.metadata",
    "langfuse.observation.status_message", "langfuse.observation.model.parameters",
    # Logfire and Pydantic AI
    "request_data", "response_data", "all_messages_events", "all_messages",
    "pydantic_ai.all_messages", "prompt", "final_result", "events", "tool_arguments",
    "tool_response", "logfire.msg", "model_request_parameters", "system_instructions", "return",
    "fastapi.arguments.values",
    # OpenLIT
    "gen_ai.content.revised_prompt", "db.filter", "db.where_document", "db.documents",
    "gen_ai.response.image.0",
    # MLflow
    "mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.chat.messages", "mlflow.trace.inputs",
    # Vercel AI
    "ai.prompt", "ai.prompt.messages", "ai.prompt.format", "ai.response.text",
    "ai.response.object", "ai.response.toolCalls", "ai.response.reasoning", "ai.toolCall.args",
    "ai.toolCall.result", "ai.value", "ai.values", "ai.embedding", "ai.embeddings",
    "ai.telemetry.metadata.note", "ai.request.headers.x-key", "ai.response.providerMetadata",
    # LangSmith and LangChain
    "langsmith.metadata.note", "langsmith.trace.inputs", "inputs", "outputs",
    "gen_ai.serialized.doc",
    # Haystack
    "haystack.component.input", "haystack.component.output", "haystack.pipeline.input_data",
    "haystack.pipeline.output_data",
    # LlamaIndex
    "query", "query_str", "response", "nodes", "chunks", "template", "template_args",
    "str_or_query_bundle", "payload", "chat_history",
    # and more
    "gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response",
    "gcp.vertex.agent.tool_call_args", "genkit:input", "genkit:output", "braintrust.input",
    "crew_inputs", "crew_tasks_output", "task_output",
    "agentops.entity.input", "llm.openai.messages", "lk.user_transcript",
)  # fmt: skip
KEYS = (*GEN_AI, *OPENTELEMETRY, *OPENLLMETRY, *OPENINFERENCE, *OTHERS)

ADDRESSES = (
    "url.full",
    "http.url",
    "http.target",
    "elasticsearch.url",
    "next.url",
    "http.referer",
)

# What `instrumented_program` says.
PROMPT = "xyzzyprompt"
SYSTEM = "xyzzysystem"
ANSWER = "xyzzyanswer"
ARGUMENT = "xyzzyargument"
PASSAGE = "xyzzypassage"
QUESTION = "xyzzyquestion"
FILTER = "xyzzyfilter"
METADATA = "xyzzymetadata"
TEMPLATE = "xyzzytemplate"
TOOL_RESULT = "xyzzytoolresult"
FAULT = "xyzzyfault"
SAID = (
    PROMPT, SYSTEM, ANSWER, ARGUMENT, PASSAGE, QUESTION, FILTER, METADATA, TEMPLATE, TOOL_RESULT,
    FAULT,
)  # fmt: skip

HARMLESS: Attributes = {
    "db.chroma.add.ids_count": 3,
    "gen_ai.completion.0.finish_reason": "stop",
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "tiny",
    "gen_ai.usage.prompt_tokens": 5,
    "http.request.body.size": 9,
    "http.route": "/chat",
    "llm.token_count.prompt": 5,
    "llm.token_count.prompt_details.cache_read": 2,
    "message.id": 1,
    "mine": "short",
    "tool.name": "look_up",
    "url.path": "/" + "long/" * 100,
    "user_agent.original": "x" * 300,
}
