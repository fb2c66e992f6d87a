"""Attribute keys: OpenTelemetry's where they exist, ours in one block.

The only file that spells a key. Sources: OpenTelemetry semantic conventions 1.44 and
the GenAI conventions (`open-telemetry/semantic-conventions-genai`).
"""

# Resource
SERVICE_NAME = "service.name"
SERVICE_VERSION = "service.version"
SERVICE_INSTANCE_ID = "service.instance.id"
HOST_NAME = "host.name"
HOST_ID = "host.id"
K8S_NODE_NAME = "k8s.node.name"

# HTTP
HTTP_REQUEST_METHOD = "http.request.method"
HTTP_REQUEST_RESEND_COUNT = "http.request.resend_count"
HTTP_RESPONSE_STATUS_CODE = "http.response.status_code"
HTTP_ROUTE = "http.route"
HTTP_METHOD_OLD = "http.method"
HTTP_STATUS_CODE_OLD = "http.status_code"
HTTP_TARGET_OLD = "http.target"  # path and query
HTTP_URL_OLD = "http.url"
URL_PATH = "url.path"
URL_FULL = "url.full"
URL_TEMPLATE = "url.template"
URL_SCHEME = "url.scheme"
HTTP_SCHEME_OLD = "http.scheme"
HTTP_FLAVOR_OLD = "http.flavor"  # such as `1.1`
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
NET_PEER_NAME_OLD = "net.peer.name"
NETWORK_PROTOCOL_VERSION = "network.protocol.version"
ERROR_TYPE = "error.type"
ASGI_EVENT_TYPE = "asgi.event.type"  # of contrib's spans of messages
OTHER = "_OTHER"  # a value that the conventions do not know
METRIC_OVERFLOW = "otel.metric.overflow"  # true: of what is beyond the most attributes

# Remote procedure calls
RPC_SYSTEM_NAME = "rpc.system.name"
RPC_SYSTEM_OLD = "rpc.system"
RPC_SERVICE_OLD = "rpc.service"
RPC_METHOD = "rpc.method"  # `package.Service/Method`
RPC_GRPC_STATUS_CODE_OLD = "rpc.grpc.status_code"  # a number
RPC_RESPONSE_STATUS_CODE = "rpc.response.status_code"  # a name, such as `NOT_FOUND`

# Databases
DB_SYSTEM_NAME = "db.system.name"
DB_SYSTEM_OLD = "db.system"
DB_COLLECTION_NAME = "db.collection.name"
DB_OPERATION_NAME = "db.operation.name"
DB_OPERATION_BATCH_SIZE = "db.operation.batch.size"

# Generative AI
GEN_AI_OPERATION_NAME = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL = "gen_ai.request.model"
GEN_AI_RESPONSE_MODEL = "gen_ai.response.model"
GEN_AI_RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
GEN_AI_RETRIEVAL_TOP_K = "gen_ai.retrieval.top_k"
GEN_AI_USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
GEN_AI_USAGE_CACHED_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_USAGE_INPUT_TOKENS_OLD = "gen_ai.usage.prompt_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS_OLD = "gen_ai.usage.completion_tokens"

GEN_AI_USAGE_CACHE_READ_TOKENS_OLD = "gen_ai.usage.cache_read_input_tokens"
GEN_AI_USAGE_CACHED_TOKENS_OLD = "gen_ai.usage.cached_tokens"
GEN_AI_SYSTEM_OLD = "gen_ai.system"
MCP_METHOD_NAME = "mcp.method.name"
MESSAGING_SYSTEM = "messaging.system"
MESSAGING_DESTINATION_NAME = "messaging.destination.name"

# Other conventions for generative AI
OPENINFERENCE_SPAN_KIND = "openinference.span.kind"
OPENINFERENCE_MODEL = "llm.model_name"
OPENINFERENCE_INPUT_TOKENS = "llm.token_count.prompt"
OPENINFERENCE_OUTPUT_TOKENS = "llm.token_count.completion"
OPENINFERENCE_CACHED_INPUT_TOKENS = "llm.token_count.prompt_details.cache_read"
TRACELOOP_SPAN_KIND = "traceloop.span.kind"
TRACELOOP_REQUEST_TYPE = "llm.request.type"
AI_SDK_OPERATION = "ai.operationId"
AI_SDK_MODEL = "ai.model.id"
AI_SDK_FIRST_CHUNK_MS = "ai.response.msToFirstChunk"
AI_SDK_FINISH_REASON = "ai.response.finishReason"
AI_SDK_INPUT_TOKENS = "ai.usage.inputTokens"
AI_SDK_OUTPUT_TOKENS = "ai.usage.outputTokens"
AI_SDK_CACHED_TOKENS = "ai.usage.cachedInputTokens"
AI_SDK_PROMPT_TOKENS = "ai.usage.promptTokens"
AI_SDK_COMPLETION_TOKENS = "ai.usage.completionTokens"
AI_SDK_TOKENS = "ai.usage.tokens"  # of what is embedded
STRANDS_FIRST_CHUNK_MS = "gen_ai.server.time_to_first_token"
STRANDS_FINISH_REASON = "finish_reason"
HAYSTACK_COMPONENT_TYPE = "haystack.component.type"
MASTRA_FIRST_CHUNK = "mastra.completion_start_time"
LANGSMITH_KIND = "langsmith.span.kind"
LLAMA_INDEX_MODEL = "model_dict.model_name"
LLAMA_INDEX_MODEL_OLD = "model_dict.model"
MLFLOW_TYPE = "mlflow.spanType"  # as JSON, as are the next two
MLFLOW_MODEL = "mlflow.llm.model"
MLFLOW_USAGE = "mlflow.chat.tokenUsage"
LANGFUSE_TYPE = "langfuse.observation.type"
LANGFUSE_MODEL = "langfuse.observation.model.name"
LANGFUSE_USAGE = "langfuse.observation.usage_details"  # a JSON object as text
LANGFUSE_GENERATION_BEGAN = "langfuse.observation.completion_start_time"  # a JSON string
LOGFIRE_SPAN_TYPE = "logfire.span_type"
LOGFIRE_DURATION = "duration"  # in seconds; of a log that tells of a stream
LITELLM_CALL_ID = "litellm.call_id"
OPENINFERENCE_FINISH_REASON = "llm.finish_reason"
OPENINFERENCE_EMBEDDING_MODEL = "embedding.model_name"

# What engines report; the same key need not mean the same of two engines
GEN_AI_REQUEST_N = "gen_ai.request.n"  # sequences asked for
LATENCY_TO_FIRST = "gen_ai.latency.time_to_first_token"
LATENCY_E2E = "gen_ai.latency.e2e"
LATENCY_IN_QUEUE = "gen_ai.latency.time_in_queue"
LATENCY_IN_PREFILL = "gen_ai.latency.time_in_model_prefill"
LATENCY_IN_DECODE = "gen_ai.latency.time_in_model_decode"
SGLANG_MODULE = "module"
SGLANG_THREAD = "thread_label"
SGLANG_BATCH_SIZE = "batch_size"  # of an event `schedule`
RUST_NAMESPACE = "code.namespace"  # of a span made with Rust's `tracing`
RUST_MODULE = "code.module.name"  # the same by its new name
RUST_VALIDATION_TIME = "validation_time"
RUST_TOKENIZATION_TIME = "tokenization_time"
RUST_QUEUE_TIME = "queue_time"
RUST_INFERENCE_TIME = "inference_time"
RUST_PACE = "time_per_token"
TRITON_MODEL_NAME = "triton.model_name"
LLM_D_TIME_TO_DECODE_MS = "llm_d.pd_proxy.true_ttft_ms"
LLM_D_PREFILL_MS = "llm_d.pd_proxy.prefill_duration_ms"
LLM_D_DECODE_MS = "llm_d.pd_proxy.decode_duration_ms"
LLM_D_HANDOVER_MS = "llm_d.pd_proxy.coordinator_overhead_ms"
LLM_D_HANDOVER_MS_OLD = "llm_d.pd_proxy.kv_transfer_overhead_ms"

# Exceptions (span events)
EXCEPTION_EVENT = "exception"
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"
EXCEPTION_STACKTRACE = "exception.stacktrace"

# From text-generation-inference
TGI_BATCH_SIZE = "batch_size"

# From Jaeger and OpenTracing
JAEGER_WARNINGS = "jaeger.warnings"  # what Jaeger noted while it repaired a span
OPENTRACING_REF_TYPE = "opentracing.ref_type"  # child_of or follows_from

# Ours
STAGE = "latencytrace.stage"  # one of `Stage`
ROUTE = "latencytrace.route"  # on metrics: `POST /chat`, or the name of a request's own span
STAGE_NAME = "latencytrace.stage.name"  # what the user called an `application` stage
INTERVALS = "latencytrace.intervals"  # as `model.packed` writes them
TOKEN_TIMES = "latencytrace.token_times"  # noqa: S105 - times of a stream's tokens
# Of an answer that was streamed, as its caller got it:
STREAMED_TOKENS = "latencytrace.streamed.tokens"  # that left after the first packet
STREAMED_EVENTS = "latencytrace.streamed.events"  # where its tokens are not counted
STREAMED_CHOICES = "latencytrace.streamed.choices"  # parallel answers (`n`)
STREAMED_FIRST_BODY = "latencytrace.streamed.first_body_ns"  # perhaps no token; from the start
RUNTIME_GAPS = "latencytrace.runtime"  # when its process kept it waiting, as intervals are
INDEX_TYPE = "latencytrace.index.type"  # such as `IndexIVFFlat`
INDEX_SIZE = "latencytrace.index.size"  # vectors that a search could find
BATCH_SIZE = "latencytrace.batch.size"  # requests or sequences served together
BATCH_TOKENS = "latencytrace.batch.tokens"  # of one member, or of a whole batch
PROCESSOR_WAIT_NS = "latencytrace.processor_wait_ns"  # its thread could run, and did not
CONCURRENCY = "latencytrace.concurrency"  # requests under way in its process, itself included
QUEUE_DEPTH = "latencytrace.queue.depth"  # how many waited before it when it joined
PREEMPTIONS = "latencytrace.preemptions"  # how often it had to make room and wait again
STARTUP = "latencytrace.startup"  # true: its process did it before it could serve anyone
SHARED = "latencytrace.shared"  # true: one span that serves many requests; on links: to one
NETWORK_PHASES = "latencytrace.network.phases"  # of an exchange; packed as intervals are
CONTENT_REMOVED = "<removed>"  # stands in the place of a value that is content
QUEUED_NS = "latencytrace.queued_ns"  # from the front proxy's taking a request to its span
RETRIES = "latencytrace.retries"  # how often the work on a message was tried before
DETAIL = "latencytrace.detail"  # one of `TraceDetail`; absent: full
CANCELLED = "latencytrace.cancelled"  # true: the caller left or cancelled the call

# How other senders say that they record a share of all traces
SAMPLE_RATE = "SampleRate"  # Honeycomb's: one of so many
SAMPLING_PROBABILITY = "sampling.probability"
JAEGER_SAMPLER_TYPE, JAEGER_SAMPLER_PARAM = "sampler.type", "sampler.param"

# What an agent reports on itself: metrics, and attributes of their points.
AGENT_RUNNING = "latencytrace.agent.running"
AGENT_SPANS_SENT = "latencytrace.agent.spans.sent"
AGENT_SPANS_DROPPED = "latencytrace.agent.spans.dropped"
AGENT_FAULTS = "latencytrace.agent.faults"
AGENT_CPU_NS = "latencytrace.agent.cpu_ns"
AGENT_PART = "latencytrace.agent.part"  # hooks, encoder or exporter
AGENT_OVERHEAD = "latencytrace.agent.overhead"  # its share of what its budget is of, of late
AGENT_BUDGET = "latencytrace.agent.overhead.budget"  # the share that it may take
AGENT_SAMPLING = "latencytrace.agent.sampling.ratio"  # of the traces that begin there
AGENT_REDUCTION = "latencytrace.agent.reduction"  # steps by which detail is lowered; 0: none
AGENT_REQUESTS = "latencytrace.agent.requests"  # by the detail that they are traced in
AGENT_START_NS = "latencytrace.agent.start_ns"  # of its process, by phase
START_PHASE = "latencytrace.start.phase"
AGENT_PRESSURE = "latencytrace.agent.pressure"  # share of time that threads waited, by resource
PRESSURE_RESOURCE = "latencytrace.resource"  # cpu, memory or io
AGENT_HOOK = "latencytrace.agent.hook"
AGENT_PROVIDER = "latencytrace.agent.provider"
HOOK = "latencytrace.hook"
HOOK_STATE = "latencytrace.hook.state"
HOOK_REASON = "latencytrace.hook.reason"

# GPUs (hardware conventions); the names of their metrics stand in `model.gpu`
HW_ID = "hw.id"
HW_NAME = "hw.name"
HW_TYPE = "hw.type"
HW_VENDOR = "hw.vendor"
HW_DRIVER_VERSION = "hw.driver_version"
HW_PARENT = "hw.parent"
GPU_INDEX = "latencytrace.gpu.index"  # as the driver counts
GPU_SAMPLER_TICK = "latencytrace.gpu.sampler.tick"  # what reading all GPUs once took
GPU_SAMPLER_INTERVAL = "latencytrace.gpu.sampler.interval"
GPU_SAMPLER_STUCK = "latencytrace.gpu.sampler.stuck"  # since when a call does not return
GPU_SAMPLER_ERRORS = "latencytrace.gpu.sampler.errors"
GPU_SAMPLER_CALL = "latencytrace.gpu.sampler.call"

# What a span had a GPU do; times in nanoseconds, from the span's start
DEVICE_ID = "latencytrace.device.id"  # the GPU's UUID
DEVICE_START = "latencytrace.device.start_ns"  # of the first work on the device
DEVICE_END = "latencytrace.device.end_ns"  # of the last
DEVICE_DURATION = "latencytrace.device.duration_ns"  # the passes added up
DEVICE_LAUNCH = "latencytrace.device.launch_ns"  # how long the host took to hand them over
DEVICE_QUEUE_DELAY = "latencytrace.device.queue_delay_ns"  # waiting for the device's earlier work
DEVICE_ERROR = "latencytrace.device.error_ns"  # by how much start and end may be wrong
DEVICE_PASSES = "latencytrace.device.passes"  # that were measured
WEIGHT_BYTES = "latencytrace.model.weight_bytes"  # that each pass has to read, at the least
MODEL_FLOPS = "latencytrace.model.pass_flops"  # that each pass has to compute, at the least
DEVICE_UNMEASURED = "latencytrace.device.unmeasured"  # passes that were not
TRANSFER_BYTES = "latencytrace.transfer.bytes"
TRANSFER_DIRECTION = "latencytrace.transfer.direction"  # `to_device`, `to_host`
TRANSFERS_UNTIMED = "latencytrace.transfer.untimed"  # copies of a span beyond those timed
