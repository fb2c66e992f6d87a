"""Trace requests with whatever a sender may say."""

from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from latencytrace.model import AttributeValue, semconv
from tests.support.builders.spans.otlp_messages import any_value, key_values

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
pieces = st.lists(
    st.sampled_from(
        ["{", "[{", "http://", "u:p@", "host", "/", "a b", "?q=1", "#f", "data:", "\n", "\v",
         "\0", "\x1f", " ", "ValueError", "Timeout", ": ", "x" * 250, "é", "\u017f", "K", "'",
         '"', "\\", "{id}", "[", "sk-", "proj1234", "password", "token", "eyJabcdefgh", "Bearer ",
         "k=v", "jdbc:", "key", "basic"]
    ),
    max_size=5,
).map("".join)  # fmt: skip
texts = any_text | pieces
keys = (
    st.sampled_from(
        ["http.route", "k" * 300, "an\u017fwer", "", "gen_ai.response.finish_reasons", "url.full",
         "gen_ai.prompt", "user.words", semconv.INTERVALS, "gen_ai.usage.input_tokens", "mine",
         "metadata.x", "gen_ai.prompt.name", "langfuse.observation.usage_details", "user_prompt"]
    )
    | any_text
)  # fmt: skip
marks = st.just(semconv.CONTENT_REMOVED)
plain = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | texts | marks
values: st.SearchStrategy[AttributeValue] = (
    plain | st.none() | st.binary(max_size=5) | st.lists(texts, max_size=3).map(tuple)
)


def _list(items: list[AnyValue]) -> AnyValue:
    value = AnyValue()
    value.array_value.values.extend(items)
    return value


def _map(items: list[tuple[str, AnyValue]]) -> AnyValue:
    value = AnyValue()
    value.kvlist_value.values.extend(KeyValue(key=key, value=one) for key, one in items)
    return value


nested = st.recursive(
    values.map(any_value),
    lambda inner: (
        st.lists(inner, max_size=3).map(_list)
        | st.lists(st.tuples(any_text, inner), max_size=3).map(_map)
    ),
    max_leaves=5,
)


@st.composite
def pairs(draw: st.DrawFn) -> list[KeyValue]:
    """Attributes; a key may come twice."""
    drawn = draw(st.lists(st.tuples(keys, nested), max_size=6))
    return [KeyValue(key=key, value=value) for key, value in drawn]


nanoseconds = st.integers(0, 2**64 - 1)


@st.composite
def resource_spans(draw: st.DrawFn) -> ResourceSpans:
    """Spans of one resource with whatever a sender may say of them."""
    spans = ResourceSpans()
    named = st.dictionaries(
        st.sampled_from(
            [semconv.SERVICE_NAME, semconv.SERVICE_VERSION, semconv.SERVICE_INSTANCE_ID,
             semconv.HOST_NAME, semconv.HOST_ID, semconv.K8S_NODE_NAME]
        ),
        texts | st.integers(0, 9),
    )  # fmt: skip
    spans.resource.attributes.extend(key_values(draw(named)) + draw(pairs()))
    scope = spans.scope_spans.add()
    scope.scope.name, scope.scope.version = draw(texts), draw(texts)
    for _ in range(draw(st.integers(0, 3))):
        span = scope.spans.add(
            trace_id=draw(st.binary(min_size=16, max_size=16).filter(any)),
            span_id=draw(st.binary(min_size=8, max_size=8).filter(any)),
            parent_span_id=draw(st.sampled_from([b"", bytes(8), b"12345678"])),
            trace_state=draw(texts),
            name=draw(texts),
            kind=draw(st.integers(-1, 7)),
            start_time_unix_nano=draw(nanoseconds),
            end_time_unix_nano=draw(nanoseconds),
            attributes=draw(pairs()),
        )
        span.status.message = draw(texts)
        span.status.code = draw(st.integers(-1, 4))  # type: ignore[assignment] # likewise
        for _ in range(draw(st.integers(0, 2))):
            span.events.add(
                time_unix_nano=draw(nanoseconds), name=draw(texts), attributes=draw(pairs())
            )
        for _ in range(draw(st.integers(0, 2))):
            span.links.add(
                trace_id=draw(st.binary(max_size=17)),
                span_id=draw(st.binary(max_size=9)),
                trace_state=draw(texts),
                attributes=draw(pairs()),
            )
    return spans


requests = st.lists(resource_spans(), max_size=3).map(
    lambda drawn: ExportTraceServiceRequest(resource_spans=drawn)
)
