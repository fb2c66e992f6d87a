"""Rows made in Python, beside those that the engine's own view makes of the same bytes."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from latencytrace.model import Attributes, AttributeValue, Event, Link, semconv
from latencytrace.service.sql import arrival_rows, otlp_view
from latencytrace.service.sql.tables import ARRIVALS, SPAN_COLUMNS, Target
from latencytrace.service.stores.chdb.engine import Connection, Engine
from tests.support.builders.otlp_messages import key_values, one_span, otlp

COLUMNS = ", ".join(f"`{name}`" for name in SPAN_COLUMNS)
QUESTION = f"SELECT {COLUMNS} FROM {ARRIVALS}"  # noqa: S608 - our own names


class TwoWays:
    """An engine whose arrivals are written in both ways, in turns."""

    def __init__(self, folder: Path) -> None:
        self._engine = Engine.open(folder)
        self._connection: Connection = self._engine.connect(query_plan_merge_expressions=0)
        self._by_view = otlp_view.target(self._engine.otlp_schema)

    def in_python(self, block: bytes) -> list[bytes] | None:
        """The rows; None: they are left to the view."""
        made = arrival_rows.rows_of(block)
        return None if made is None else self._written(arrival_rows.TARGET, *made)

    def by_view(self, block: bytes) -> list[bytes]:
        """Likewise."""
        message = ExportTraceServiceRequest.FromString(block)
        count = sum(
            len(scope.spans) for one in message.resource_spans for scope in one.scope_spans
        )
        return self._written(self._by_view, block, count)

    def close(self) -> None:
        """End the engine."""
        self._engine.close()

    def _written(self, target: Target, data: bytes, rows: int) -> list[bytes]:
        self._connection.query(f"TRUNCATE TABLE {ARRIVALS}", "Null")
        self._connection.insert(target, data, rows)
        lines = self._connection.query(QUESTION, "JSONCompactEachRow")
        return sorted(lines.splitlines())


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWays]:
    two = TwoWays(tmp_path_factory.mktemp("ways"))
    yield two
    two.close()


# What senders may say

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
pieces = st.lists(
    st.sampled_from(
        ["{", "[{", "http://", "u:p@", "host", "/", "a b", "?q=1", "#f", "data:", "\n", "\v",
         "\0", "\x1f", " ", "ValueError", "Timeout", ": ", "x" * 250, "é", "\u017f", "K", "'",
         '"', "\\"]
    ),
    max_size=5,
).map("".join)  # fmt: skip
texts = any_text | pieces
keys = st.sampled_from(["http.route", "k" * 300, "an\u017fwer", ""]) | any_text
marks = st.just(semconv.CONTENT_REMOVED)
plain = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | texts | marks
values: st.SearchStrategy[AttributeValue] = (
    plain | st.none() | st.binary(max_size=5) | st.lists(texts, max_size=3).map(tuple)
)


@st.composite
def pairs(draw: st.DrawFn) -> list[KeyValue]:
    """Attributes; a key may come twice."""
    drawn = draw(st.lists(st.tuples(keys, values), max_size=6))
    return [pair for key, value in drawn for pair in key_values({key: value})]


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
            trace_id=draw(st.binary(min_size=16, max_size=16)),
            span_id=draw(st.binary(min_size=8, max_size=8)),
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


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=st.lists(resource_spans(), max_size=3))
def test_both_ways_come_to_the_same_rows(ways: TwoWays, drawn: list[ResourceSpans]) -> None:
    block = ExportTraceServiceRequest(resource_spans=drawn).SerializeToString()

    rows = ways.in_python(block)

    assert rows is None or rows == ways.by_view(block)


def test_what_was_removed_is_counted_wherever_it_stood(ways: TwoWays) -> None:
    removed: Attributes = {"a": semconv.CONTENT_REMOVED, "b": "kept", "c": 1}
    event = Event(time_ns=1, name="said", attributes=removed)
    link = Link(trace_id="1" * 32, span_id="1" * 16, attributes=removed)
    span = replace(one_span(attributes=removed), events=(event, event), links=(link,))
    block = otlp(span)

    rows = ways.in_python(block)

    assert rows is not None
    assert rows == ways.by_view(block)
    assert orjson.loads(rows[0])[list(SPAN_COLUMNS).index("ContentRemoved")] == 4


FRACTIONS = (
    0.0, 1.0, 1.5, 1e-4, 1e-5, 1.5e-6, 1e-6, 9.9e-7, 1e-7, 1e15, 1e16, 123456789e12, 1e20,
    1.25e20, 1e21, 1.5e21, 1e100, 5e-324, 1.7976931348623157e308, 0.1, 2**53 + 1.0, math.nan,
    math.inf,
)  # fmt: skip


def test_fractions_are_written_as_the_engine_writes_them(ways: TwoWays) -> None:
    said: Attributes = {f"{sign * value}": sign * value for value in FRACTIONS for sign in (1, -1)}
    block = otlp(one_span(attributes=said))

    assert ways.in_python(block) == ways.by_view(block)


@pytest.mark.parametrize(
    "attributes",
    [
        {"http.route": "/chat", "n": 1, "b": False, "url.full": "http://u@h/p?q"},
        {"gen_ai.response.finish_reasons": ("stop", "length")},
        {"gen_ai.response.finish_reasons": ()},
        {"gen_ai.prompt": "Who was Ada?", "none": None, "bytes": b"\0"},
        {"latencytrace.long": "x" * 5000},
        {"k" * 257: 1, "an\u017fwer": "Ada"},
    ],
    ids=["scalars", "list", "empty list", "content", "long", "keys"],
)
def test_what_most_spans_say_is_not_left_to_the_view(
    ways: TwoWays, attributes: Attributes
) -> None:
    block = otlp(one_span(attributes=attributes))

    assert ways.in_python(block) == ways.by_view(block)


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.response.finish_reasons": ('"',)},
        {"gen_ai.response.finish_reasons": (1,)},
        {"gen_ai.response.finish_reasons": ("a/b",)},
    ],
    ids=["quoted", "numbers", "slash"],
)
def test_what_is_rare_is_left_to_the_view(attributes: Attributes) -> None:
    block = otlp(one_span(attributes=attributes))

    assert arrival_rows.rows_of(block) is None


def test_bytes_that_are_no_protobuf_are_left_to_the_view() -> None:
    assert arrival_rows.rows_of(otlp(one_span()) + b"\x0a\xff\xff") is None
