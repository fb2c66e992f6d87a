"""Batches of whole traces out of columns, beside the same from whole spans."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.analysis.columns.keys import COUNTS, PACKED
from latencytrace.model import AttributeValue, Span, semconv
from latencytrace.service.otlp import scanner, shapes
from latencytrace.service.otlp.batches import batch_of
from latencytrace.service.otlp.block_builder import span_block_of
from latencytrace.service.otlp.scanner import find_shapes, scanned
from latencytrace.service.otlp.shapes import SHAPES, shape_of
from latencytrace.service.otlp.span_block import SpanBlock
from tests.service.otlp.generated_requests import requests
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.compiled import COMPILED

pytestmark = COMPILED

WAYS: dict[str, Callable[[bytes], SpanBlock]] = {
    "plain": lambda sent: span_block_of(ExportTraceServiceRequest.FromString(sent)),
    "compiled": lambda sent: scanned(sent, capture_content=True),
}


@pytest.fixture(autouse=True)
def nothing_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only those keys vary that always do, whatever other tests sent."""
    monkeypatch.setattr(SHAPES, "learned", frozenset())
    monkeypatch.setattr(shapes, "MOST_VALUES", 1 << 30)


@pytest.fixture(scope="module", params=list(WAYS.values()), ids=list(WAYS))
def read(request: pytest.FixtureRequest) -> Callable[[bytes], SpanBlock]:
    way: Callable[[bytes], SpanBlock] = request.param
    return way


def sparse(
    spans: list[Span], keys: frozenset[str], kinds: set[type]
) -> dict[str, tuple[list[int], str]]:
    """By key: the rows of spans that have a value of such a type, and these values."""
    found: dict[str, tuple[list[int], list[AttributeValue]]] = {}
    for row, span in enumerate(spans):
        for key, value in span.attributes.items():
            if key in keys and type(value) in kinds:
                rows, values = found.setdefault(key, ([], []))
                rows.append(row)
                values.append(value)
    return {key: (rows, repr(values)) for key, (rows, values) in found.items()}


def time(time_ns: int) -> int:
    return time_ns if time_ns < 1 << 63 else -1


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=st.lists(requests, min_size=1, max_size=3))
def test_a_batch_says_what_its_spans_say(
    read: Callable[[bytes], SpanBlock], drawn: list[ExportTraceServiceRequest]
) -> None:
    blocks = [read(request.SerializeToString()) for request in drawn]
    parts = [(block, np.arange(block.count)[::-1]) for block in blocks]
    spans = [span for block, rows in parts for span in block.spans(rows)]
    spans.sort(key=lambda span: span.trace_id)

    batch = batch_of(parts)

    traces = [span.trace_id for span in spans]
    assert list(batch.trace_ids) == sorted(set(traces))
    assert batch.first.tolist() == [*map(traces.index, batch.trace_ids), len(spans)]
    assert repr([batch.span(row) for row in range(len(spans))]) == repr(spans)
    assert [f"{one:016x}" for one in batch.span_id.tolist()] == [one.span_id for one in spans]
    assert batch.parent_id.tolist() == [int(one.parent_id or "0", 16) for one in spans]
    assert batch.start_ns.tolist() == [time(span.start_ns) for span in spans]
    assert batch.end_ns.tolist() == [time(span.end_ns) for span in spans]
    assert {
        key: (rows.tolist(), repr(values.tolist())) for key, (rows, values) in batch.counts.items()
    } == sparse(spans, COUNTS, {int})
    assert {
        key: (rows.tolist(), repr(list(values))) for key, (rows, values) in batch.packed.items()
    } == sparse(spans, PACKED, {str, bytes, int, float})
    assert all(
        shape_of(batch.shapes[shape]) == shape_of(span)
        for shape, span in zip(batch.shape.tolist(), spans, strict=True)
        if shape >= 0
    )


def test_varying_values_do_not_make_a_shape(read: Callable[[bytes], SpanBlock]) -> None:
    spans = [
        one_span(
            f"{number:032x}",
            attributes={
                semconv.GEN_AI_USAGE_INPUT_TOKENS: number,
                semconv.INTERVALS: f"respond:{number}+1",
            },
        )
        for number in range(1, 4)
    ]
    block = read(otlp(*spans))

    batch = batch_of([(block, np.arange(3))])

    assert len(set(batch.shape.tolist())) == 1
    assert batch.counts[semconv.GEN_AI_USAGE_INPUT_TOKENS][1].tolist() == [1, 2, 3]
    assert batch.packed[semconv.INTERVALS][1] == [f"respond:{number}+1" for number in (1, 2, 3)]


def test_both_ways_give_a_shape_one_number(read: Callable[[bytes], SpanBlock]) -> None:
    sent = otlp(one_span(name="the same both ways", attributes={"a": 1}))
    every = [batch_of([(way(sent), np.arange(1))]).shape[0] for way in WAYS.values()]

    batch = batch_of([(read(sent), np.arange(1))])

    assert {int(shape) for shape in every} == {int(batch.shape[0])} != {-1}


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(request=requests)
def test_compiled_code_finds_the_shapes_of_what_was_decoded_the_plain_way(
    request: ExportTraceServiceRequest,
) -> None:
    block = span_block_of(request)
    removed = block.table["removed"].copy()

    assert find_shapes(block)

    assert block.table["removed"].tolist() == removed.tolist()
    assert all(
        shape_of(SHAPES.spans[shape]) == shape_of(span)
        for shape, span in zip(block.table["shape"].tolist(), block.spans(), strict=True)
        if shape >= 0
    )


def test_shapes_are_found_without_compiled_code_too(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = otlp(one_span(name="with and without", attributes={"a": 1}))
    compiled = batch_of([(WAYS["plain"](sent), np.arange(1))]).shape[0]
    monkeypatch.setattr(scanner, "core", None)

    batch = batch_of([(WAYS["plain"](sent), np.arange(1))])

    assert int(batch.shape[0]) == int(compiled) >= 0
