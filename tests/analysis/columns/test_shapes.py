"""Shapes are numbered by what rules decide by."""

import pytest

from latencytrace.analysis.columns.shapes import NO_SHAPE, Shapes
from latencytrace.model import Event, Link, SpanKind, StatusCode, semconv
from tests.support.builders.spans.numbered import TRACE_ID, span


@pytest.mark.parametrize(
    "more",
    [
        {"name": "decode"},
        {"name": "GET / http send"},
        {"kind": SpanKind.CLIENT},
        {"status": StatusCode.ERROR},
        {"scope": "vllm.engine"},
        {"events": (Event(time_ns=1, name="exception"),)},
        {"links": (Link(trace_id=TRACE_ID, span_id="1" * 16),)},
        {"attributes": {semconv.STAGE: "embed"}},
        {"attributes": {semconv.HTTP_RESPONSE_STATUS_CODE: 503}},
        {"attributes": {semconv.GEN_AI_REQUEST_MODEL: "llama"}},
    ],
    ids=["name", "message", "kind", "status", "scope", "event", "link", "a word", "a status",
         "a key that is there"],
)  # fmt: skip
def test_what_rules_decide_by_makes_another_shape(more: dict[str, object]) -> None:
    shapes = Shapes()

    assert shapes.number(span(1, 0, 9)) == 0
    assert shapes.number(span(1, 0, 9, **more)) == 1  # type: ignore[arg-type] # fields of a span
    assert shapes.number(span(2, 5, 7, name="another step", service="other")) == 0


def test_beyond_the_bound_there_are_no_numbers() -> None:
    shapes = Shapes(most=1)

    assert [shapes.number(span(1, 0, 9, name=name)) for name in ("a", "decode", "a")] == [
        0, NO_SHAPE, 0,
    ]  # fmt: skip
    assert len(shapes.spans) == 1
