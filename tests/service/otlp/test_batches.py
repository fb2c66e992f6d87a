"""Batches of whole traces out of columns, beside the same from whole spans."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.analysis.columns.keys import COUNTS, PACKED
from latencytrace.analysis.columns.shapes import ruled
from latencytrace.model import AttributeValue, Span, semconv
from latencytrace.model.span_batch import CarriedValues, Rows, SpanBatch
from latencytrace.service.otlp.batches import batch_of
from latencytrace.service.otlp.block_builder import span_block_of
from latencytrace.service.otlp.scanner import scanned
from latencytrace.service.otlp.shapes import SHAPES
from latencytrace.service.otlp.span_block import NOT_SHAPED, SpanBlock, unpacked
from tests.service.otlp.generated_requests import requests
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.builders.spans.span_batches import carried
from tests.support.compiled import COMPILED

pytestmark = COMPILED

WAYS: dict[str, Callable[[bytes], SpanBlock]] = {
    "plain": lambda sent: span_block_of(ExportTraceServiceRequest.FromString(sent)),
    "compiled": lambda sent: scanned(sent, capture_content=True),
}


@pytest.fixture(scope="module", params=list(WAYS.values()), ids=list(WAYS))
def read(request: pytest.FixtureRequest) -> Callable[[bytes], SpanBlock]:
    way: Callable[[bytes], SpanBlock] = request.param
    return way


def sparse_of(
    columns: Mapping[str, tuple[Rows, Iterable[object]]], chosen: list[int]
) -> dict[str, tuple[list[int], str]]:
    """By key: the rows chosen of a column, and their values."""
    found = {}
    for key, (rows, values) in columns.items():
        every = [
            (row, one) for row, one in zip(rows.tolist(), values, strict=True) if row in chosen
        ]
        if every:
            plain = [one.item() if isinstance(one, np.int64) else one for _, one in every]
            found[key] = ([row for row, _ in every], repr(plain))
    return found


def sparse(
    spans: list[Span], chosen: list[int], keys: frozenset[str], kinds: set[type]
) -> dict[str, tuple[list[int], str]]:
    """By key: the rows of spans that have a value of such a type, and these values."""
    found: dict[str, tuple[list[int], list[AttributeValue]]] = {}
    for row in chosen:
        for key, value in spans[row].attributes.items():
            if key in keys and type(value) in kinds:
                rows, values = found.setdefault(key, ([], []))
                rows.append(row)
                values.append(value)
    return {key: (rows, repr(values)) for key, (rows, values) in found.items()}


def time(time_ns: int) -> int:
    return time_ns if time_ns < 1 << 63 else -1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    usual = shaped(batch)  # of the others a key may come twice
    assert sparse_of(batch.counts, usual) == sparse(spans, usual, COUNTS, {int})
    assert sparse_of(batch.packed, usual) == sparse(spans, usual, PACKED, {str, bytes, int, float})
    assert all(
        repr(batch.shapes[shape]) == repr(ruled(span))
        for shape, span in zip(batch.shape.tolist(), spans, strict=True)
        if shape >= 0
    )
    assert repr([batch.bare(row) for row in shaped(batch)]) == repr(
        [bare(spans[row]) for row in shaped(batch)]
    )
    assert told(batch, batch.carried, spans) == told(batch, carried(spans), spans)


def test_what_spans_carry_makes_no_shape(read: Callable[[bytes], SpanBlock]) -> None:
    spans = [
        one_span(
            f"{number:032x}",
            name=f"step {number}",
            attributes={
                semconv.GEN_AI_USAGE_INPUT_TOKENS: number,
                semconv.GEN_AI_REQUEST_MODEL: f"model {number}",
                f"app.{number}": number / 7,
                semconv.INTERVALS: f"respond:{number}+1",
            },
        )
        for number in range(1, 4)
    ]

    batch = batch_of([(read(otlp(*spans)), np.arange(3))])

    assert len(set(batch.shape.tolist())) == 1
    assert batch.counts[semconv.GEN_AI_USAGE_INPUT_TOKENS][1].tolist() == [1, 2, 3]
    assert batch.packed[semconv.INTERVALS][1] == [f"respond:{number}+1" for number in (1, 2, 3)]


def test_the_order_of_keys_makes_no_shape(read: Callable[[bytes], SpanBlock]) -> None:
    said = {semconv.STAGE: "embed", semconv.ERROR_TYPE: "timeout", semconv.DB_SYSTEM_NAME: "x"}
    spans = [one_span(attributes=dict(order)) for order in permutations(said.items())]
    parts = [(read(otlp(span)), np.arange(1)) for span in spans]

    assert len(set(batch_of(parts).shape.tolist())) == 1


def test_both_ways_give_a_shape_one_number(read: Callable[[bytes], SpanBlock]) -> None:
    sent = otlp(one_span(name="the same both ways", attributes={"a": 1}))
    every = [batch_of([(way(sent), np.arange(1))]).shape[0] for way in WAYS.values()]

    batch = batch_of([(read(sent), np.arange(1))])

    assert {int(shape) for shape in every} == {int(batch.shape[0])} != {-1}


def test_a_block_of_another_version_is_read_by_what_its_keys_say(
    read: Callable[[bytes], SpanBlock],
) -> None:
    sent = otlp(one_span(attributes={semconv.STAGE: "embed", semconv.QUEUE_DEPTH: 7}))
    block = read(sent)
    here = batch_of([(block, np.arange(1))])
    block.words["code"] = np.arange(len(block.words))[::-1]

    there = batch_of([(unpacked(block.packed()), np.arange(1))])

    assert there.shape.tolist() == here.shape.tolist()
    assert there.counts[semconv.QUEUE_DEPTH][1].tolist() == [7]


def test_a_key_that_comes_twice_makes_its_own_trace_odd(
    read: Callable[[bytes], SpanBlock],
) -> None:
    message = ExportTraceServiceRequest.FromString(otlp(one_span(attributes={"a": 1})))
    (span,) = message.resource_spans[0].scope_spans[0].spans
    span.attributes.add(key="a").value.int_value = 2

    batch = batch_of([(read(message.SerializeToString()), np.arange(1))])

    assert batch.shape.tolist() == [-1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=requests)
def test_what_was_removed_is_counted_alike_both_ways(request: ExportTraceServiceRequest) -> None:
    block = span_block_of(request)
    removed = block.table["removed"].copy()

    block.table["shape"] = NOT_SHAPED
    SHAPES.latest.find_anew(block)

    assert block.table["removed"].tolist() == removed.tolist()


FRACTIONS = (
    0.0, -0.0, 1.0, -2.5, 1e-3, 1e-4, 9.999e-5, 1.234e-5, 1e-5, 1e-6, 5e-324, 1e15, 1e16,
    9999999999999998.0, 1.5e20, 1e22, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        FRACTIONS,
        (1, -7, 0, -(1 << 63), (1 << 63) - 1),
        (1, 1.0, True, False, "1", "1.0", "true", ("a", 1), (), b"a"),
        ("x" * 200, "x" * 128, "", "\u00e9" * 130, "\U0001f600" * 128),
    ],
    ids=["fractions", "numbers", "of several kinds", "texts"],
)
def test_attributes_are_told_by_the_text_that_they_are_asked_for_by(
    values: Sequence[AttributeValue], read: Callable[[bytes], SpanBlock]
) -> None:
    spans = [
        one_span(f"{number:032x}", attributes={"score": value, "other": value})
        for number, value in enumerate(values, 1)
    ]

    batch = batch_of([(read(otlp(*spans)), np.arange(len(spans)))])

    assert told(batch, batch.carried, spans) == told(batch, carried(spans), spans)


def shaped(batch: SpanBatch) -> list[int]:
    """The rows that have a shape."""
    found: list[int] = np.flatnonzero(batch.shape >= 0).tolist()
    return found


def bare(span: Span) -> Span:
    """A span as `SpanBatch.bare` gives it."""
    return replace(
        span, attributes={}, events=(), links=(), scope="", content_removed=0, trace_state="",
        start_ns=time(span.start_ns), end_ns=time(span.end_ns),
    )  # fmt: skip


def told(batch: SpanBatch, values: CarriedValues, spans: Sequence[Span]) -> list[object]:
    """What the attributes of spans tell of their requests, by row; the same has one number."""
    every: list[object] = []
    numbers: dict[int, int] = {}
    for row in shaped(batch):
        begin = int(values.begin[row])
        for place in range(begin, begin + int(values.count[row])):
            assert values.row[place] == row
            assert repr(values.value(place)) in map(repr, spans[row].attributes.values())
            first, count = int(values.item[place]), int(values.items[place])
            items = np.arange(first, first + count)
            codes, keys = values.keys(items)
            texts, sizes = values.texts(items)
            found = [
                numbers.setdefault(one, len(numbers)) for one in values.number[items].tolist()
            ]
            every.append(
                (row, [keys[code] for code in codes.tolist()], texts, sizes.tolist(), found)
            )
    return every
