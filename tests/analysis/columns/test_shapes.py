"""Spans that differ only in ids, times and varying values have one shape."""

from dataclasses import replace

import numpy as np
import pytest

from latencytrace.analysis.columns.keys import MOST_VALUES
from latencytrace.analysis.columns.shapes import Shapes
from latencytrace.model import Event, Span, SpanKind, StatusCode, semconv
from latencytrace.model.span_batch import SpanBatch

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TOKENS = semconv.GEN_AI_USAGE_INPUT_TOKENS


def span(span_id: int = 1, **more: object) -> Span:
    usual: dict[str, object] = {
        "trace_id": TRACE_ID,
        "span_id": f"{span_id:016x}",
        "parent_id": None,
        "name": "chat",
        "start_ns": 10,
        "end_ns": 20,
        "attributes": {"a": 1, TOKENS: 7, "b": "x"},
    }
    return Span(**(usual | more))  # type: ignore[arg-type] # fields of a span


def number(shapes: Shapes, one: Span) -> int:
    return shapes.read(one)[0]


@pytest.mark.parametrize(
    "more",
    [
        {"span_id": "b" * 16},
        {"parent_id": "b" * 16},
        {"start_ns": 5, "end_ns": 6},
        {"attributes": {"a": 1, TOKENS: 8, "b": "x"}},
        {"attributes": {"client.port": 99, "a": 1, TOKENS: 8, "b": "x"}},
    ],
    ids=["id", "parent", "times", "a count", "what nobody reads"],
)
def test_these_make_no_difference(more: dict[str, object]) -> None:
    shapes = Shapes()

    assert number(shapes, span()) == number(shapes, replace(span(), **more)) == 0  # type: ignore[arg-type] # fields of a span


@pytest.mark.parametrize(
    "more",
    [
        {"name": "other"},
        {"kind": SpanKind.CLIENT},
        {"status": StatusCode.ERROR},
        {"service": "other"},
        {"host": "other"},
        {"scope": "other"},
        {"events": (Event(time_ns=1, name="exception"),)},
        {"attributes": {"a": 1.0, TOKENS: 7, "b": "x"}},
        {"attributes": {"a": True, TOKENS: 7, "b": "x"}},
        {"attributes": {"a": 1, TOKENS: "7", "b": "x"}},
        {"attributes": {"a": 1, "b": "x"}},
        {"attributes": {"a": 1, "b": "x", TOKENS: 7}},
    ],
    ids=[
        "name", "kind", "status", "service", "host", "scope", "event", "a type", "truth",
        "a count of another type", "no count", "order",
    ],
)  # fmt: skip
def test_these_do(more: dict[str, object]) -> None:
    shapes = Shapes()

    assert number(shapes, span()) == 0
    assert number(shapes, replace(span(), **more)) == 1  # type: ignore[arg-type] # fields of a span
    assert number(shapes, span(2)) == 0


def test_beyond_the_bound_there_are_no_numbers() -> None:
    shapes = Shapes(most=1)

    assert [number(shapes, span(name=name)) for name in "aba"] == [0, -1, 0]
    assert [one.name for one in shapes.spans] == ["a"]


def test_a_key_of_many_values_varies_from_then_on() -> None:
    shapes = Shapes()
    scores = [span(attributes={"a": 1, "score": at / 7}) for at in range(1_000)]

    numbers = [number(shapes, one) for one in scores]

    assert numbers[: MOST_VALUES + 1] == list(range(MOST_VALUES + 1))
    assert set(numbers[MOST_VALUES + 1 :]) == {MOST_VALUES + 1}
    assert shapes.read(scores[0]) == (MOST_VALUES + 1, [("score", None, 0.0)])


def test_a_key_that_rules_read_never_does() -> None:
    shapes = Shapes()
    routes = [span(attributes={semconv.HTTP_ROUTE: f"/{at}"}) for at in range(100)]

    assert [number(shapes, one) for one in routes] == list(range(100))


def test_a_batch_holds_times_ids_and_what_varies() -> None:
    spans = [
        span(1, attributes={TOKENS: 7, semconv.INTERVALS: "respond:1+2"}),
        span(0xFFFF_FFFF_FFFF_FFFF, parent_id=f"{1:016x}", end_ns=1 << 63),
    ]

    batch = SpanBatch.of({"b" * 32: [], TRACE_ID: spans}, Shapes())

    assert batch.trace_ids == ("b" * 32, TRACE_ID)
    assert batch.first.tolist() == [0, 0, 2]
    assert batch.span_id.tolist() == [1, 0xFFFF_FFFF_FFFF_FFFF]
    assert batch.parent_id.tolist() == [0, 1]
    assert (batch.start_ns.tolist(), batch.end_ns.tolist()) == ([10, 10], [20, -1])
    assert batch.shape.tolist() == [0, 1]
    assert batch.span(1) is spans[1]
    rows, counts = batch.counts[TOKENS]
    assert (rows.tolist(), counts.tolist()) == ([0, 1], [7, 7])
    texts = batch.packed[semconv.INTERVALS]
    assert (texts[0].tolist(), texts[1]) == ([0], ["respond:1+2"])


def test_an_empty_batch_is_one() -> None:
    batch = SpanBatch.of({}, Shapes())

    assert batch.first.tolist() == [0]
    assert batch.shape.dtype == np.int32
    assert not batch.packed
