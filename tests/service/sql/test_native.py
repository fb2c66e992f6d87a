"""Blocks in the engine's Native format, beside the rows of the engine's own view."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, assume, given, settings
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.model import Attributes, AttributeValue, Event, Link, Span, semconv
from latencytrace.model.texts.escaped import is_blank
from latencytrace.service.otlp.block_builder import span_block_of
from latencytrace.service.otlp.span_block import Numbers, SpanBlock, joined, unpacked
from latencytrace.service.sql import native, span_rows
from latencytrace.service.sql.tables import ARRIVALS, SPAN_COLUMNS
from latencytrace.service.stores.chdb.engine import Connection, Engine
from tests.service.otlp.generated_requests import requests
from tests.service.sql import otlp_view
from tests.support.builders.spans.otlp_messages import one_span, otlp

COLUMNS = ", ".join(f"`{name}`" for name in SPAN_COLUMNS)
QUESTION = f"SELECT {COLUMNS} FROM {ARRIVALS}"  # noqa: S608 - our own names


def block_of(request: bytes) -> SpanBlock:
    return span_block_of(ExportTraceServiceRequest.FromString(request))


class TwoWays:
    """An engine whose arrivals are written in both ways, in turns."""

    def __init__(self, folder: Path) -> None:
        self._engine = Engine.open(folder / "data")
        self._connection: Connection = self._engine.connect(query_plan_merge_expressions=0)
        self._schema, self._block = folder / "otlp.proto", folder / "block"
        self._schema.write_text(otlp_view.PROTOBUF_SCHEMA)
        for statement in otlp_view.view_definitions():
            self._connection.query(statement, "Null")

    def as_columns(self, block: SpanBlock, rows: Numbers | None = None) -> list[bytes]:
        """The rows of a block in the Native format."""
        self._connection.query(f"TRUNCATE TABLE {ARRIVALS}", "Null")
        count = block.count if rows is None else len(rows)
        self._connection.insert(native.ARRIVED, native.native(block, rows), count)
        return self._rows()

    def by_view(self, request: bytes) -> list[bytes]:
        """Those that the engine's view makes of a request."""
        self._connection.query(f"TRUNCATE TABLE {ARRIVALS}", "Null")
        if request:
            self._block.write_bytes(request)
            statement = otlp_view.insert_statement(self._schema, self._block)
            self._connection.query(statement, "Null")
        return self._rows()

    def spans(self, trace_ids: list[str]) -> list[Span]:
        """What the store tells of these traces."""
        question = span_rows.spans_of(ARRIVALS)
        lines = self._connection.query(question, "JSONCompactEachRow", {"trace_ids": trace_ids})
        return span_rows.once(lines)

    def close(self) -> None:
        """End the engine."""
        self._engine.close()

    def _rows(self) -> list[bytes]:
        lines = self._connection.query(QUESTION, "JSONCompactEachRow")
        return sorted(lines.splitlines())


@pytest.fixture(scope="module", params=["plain", "compiled"])
def ways(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoWays]:
    two = TwoWays(tmp_path_factory.mktemp("ways"))
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(native, "core", None)
        yield two
    two.close()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=requests)
def test_both_ways_come_to_the_same_rows(
    ways: TwoWays, request: ExportTraceServiceRequest
) -> None:
    sent = request.SerializeToString()
    block = block_of(sent)
    # To the view a blank name is a name.
    assume(not any(is_blank(name) for name in named_in_resources(request)))

    assert ways.as_columns(block) == ways.by_view(sent)


def named_in_resources(request: ExportTraceServiceRequest) -> list[str]:
    """The texts in attributes of resources, but empty ones."""
    return [
        pair.value.string_value
        for spans in request.resource_spans
        for pair in spans.resource.attributes
        if pair.value.string_value
    ]


def in_order(spans: list[Span]) -> list[str]:
    """Each span once, the longest, as a text: True is no 1 in it, and NaN is itself."""
    ordered = sorted(
        spans, key=lambda span: (span.trace_id, span.span_id, span.start_ns - span.end_ns)
    )
    once = {(span.trace_id, span.span_id): span for span in reversed(ordered)}
    return sorted(map(repr, once.values()))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=requests)
def test_spans_of_columns_are_those_that_the_store_gives_back(
    ways: TwoWays, request: ExportTraceServiceRequest
) -> None:
    block = block_of(request.SerializeToString())
    ways.as_columns(block)

    stored = ways.spans([span.trace_id for span in block.spans()])

    assert in_order(stored) == in_order(block.spans())


def test_some_rows_of_a_block_are_a_block(ways: TwoWays) -> None:
    first, second, third = (one_span(f"{number:032x}") for number in (1, 2, 3))
    block = block_of(otlp(first, second, third))
    rows = np.array([2, 0])

    written = ways.as_columns(block, rows)

    assert block.spans(rows) == [third, first]
    assert written == ways.by_view(otlp(first, third))


def test_blocks_that_are_joined_have_the_rows_of_each(ways: TwoWays) -> None:
    event = Event(time_ns=1, name="said", attributes={"b": 1.5, "list": ("x",)})
    link = Link(trace_id="1" * 32, span_id="1" * 16, attributes={"c": "d"})
    spans = [
        replace(one_span(f"{number:032x}"), events=(event,) * number, links=(link,), service=name)
        for number, name in enumerate(("rag", "embedder", "rag"), start=1)
    ]

    block = joined([block_of(otlp(span)) for span in spans])

    assert block.spans() == spans
    assert ways.as_columns(block) == ways.by_view(otlp(*spans))


def test_a_block_comes_back_from_its_bytes(ways: TwoWays) -> None:
    sent = otlp(one_span(attributes={"a": 1, "b": ("x", 1.5)}), one_span("1" * 32))
    block = block_of(sent)

    again = unpacked(block.packed())

    assert repr(again.spans()) == repr(block.spans())
    assert ways.as_columns(again) == ways.by_view(sent)


@pytest.mark.parametrize("data", [b"", b"\x0a\x00", b"\xf1columns1", otlp(one_span())])
def test_other_bytes_are_no_block(data: bytes) -> None:
    with pytest.raises(ValueError, match="no columns"):
        unpacked(data)


def test_what_was_removed_is_counted_wherever_it_stood(ways: TwoWays) -> None:
    removed: Attributes = {"a": semconv.CONTENT_REMOVED, "b": "kept", "c": 1}
    event = Event(time_ns=1, name="said", attributes=removed)
    link = Link(trace_id="1" * 32, span_id="1" * 16, attributes=removed)
    span = replace(one_span(attributes=removed), events=(event, event), links=(link,))
    sent = otlp(span)

    rows = ways.as_columns(block_of(sent))

    assert rows == ways.by_view(sent)
    assert orjson.loads(rows[0])[list(SPAN_COLUMNS).index("ContentRemoved")] == 4


FRACTIONS = (
    0.0, 1.0, 1.5, 1e-4, 1e-5, 1.5e-6, 1e-6, 9.9e-7, 1e-7, 1e15, 1e16, 123456789e12, 1e20,
    1.25e20, 1e21, 1.5e21, 1e100, 5e-324, 1.7976931348623157e308, 0.1, 2**53 + 1.0, math.nan,
    math.inf,
)  # fmt: skip


def test_fractions_are_written_as_the_engine_writes_them(ways: TwoWays) -> None:
    said: Attributes = {f"{sign * value}": sign * value for value in FRACTIONS for sign in (1, -1)}
    sent = otlp(one_span(attributes={**said, "list": tuple(FRACTIONS)}))

    assert ways.as_columns(block_of(sent)) == ways.by_view(sent)


def test_texts_in_lists_are_escaped_as_the_engine_escapes_them(ways: TwoWays) -> None:
    said = tuple(map(chr, (*range(0x100), 0x2028, 0x2029, 0xFFFF, 0x1F600)))
    sent = otlp(one_span(attributes={"list": said}))

    assert ways.as_columns(block_of(sent)) == ways.by_view(sent)


@pytest.mark.parametrize("value", ["", None, True, 1, 1.5, b"x", ("x",)], ids=repr)
def test_one_attribute_keeps_its_type(ways: TwoWays, value: AttributeValue) -> None:
    event = Event(time_ns=1, name="said", attributes={"a": value})
    spans = [one_span(), replace(one_span("1" * 32, attributes={"a": value}), events=(event,))]
    sent = otlp(*spans)

    assert ways.as_columns(block_of(sent)) == ways.by_view(sent)


def test_more_words_than_a_byte_counts(ways: TwoWays) -> None:
    spans = [
        one_span(f"{number:032x}", name=f"call {number}", attributes={f"key{number}": number})
        for number in range(1, 301)
    ]
    sent = otlp(*spans)

    assert ways.as_columns(block_of(sent)) == ways.by_view(sent)
