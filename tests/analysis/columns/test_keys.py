"""No attribute makes a difference below a request's own span that shapes and columns leave out."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latencytrace.analysis.calls.retries import have_failed_calls
from latencytrace.analysis.columns.keys import COUNTS, PACKED, RULED, UNREAD, is_read, varies
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.tail.cohort_attributes import LEFT_OUT
from latencytrace.model import AttributeValue, Span, semconv
from tests.support.builders.spans.recorded import FIXTURES, recorded
from tests.support.builders.spans.strategies import heaps
from tests.support.simulation.made_traces import made_trace

HELD = COUNTS | PACKED | RULED


class Noting(dict[str, AttributeValue]):
    """Attributes that note which keys they are asked for."""

    def __init__(self, attributes: Any, asked: set[str]) -> None:  # noqa: ANN401 - as of a dict
        super().__init__(attributes)
        self._asked = asked

    def __getitem__(self, key: str) -> AttributeValue:
        self._asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._asked.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - as of a dict
        """Note the key, whether it is there or not."""
        self._asked.add(key)
        return super().get(key, default)


def asked_for(spans: Iterable[Span]) -> set[str]:
    """The keys that the analysis asks spans for which are no request's own, and no failed call's.

    Those of the latter are odd, and so are spans that share an id.
    """
    spans = list(spans)
    if have_failed_calls(spans) or len({span.span_id for span in spans}) < len(spans):
        return set()
    roots = {request.span_id for request in requests_of(spans, {}, rootless=True)}
    asked: set[str] = set()
    requests_of(
        [
            span
            if span.span_id in roots
            else replace(span, attributes=Noting(span.attributes, asked))
            for span in spans
        ],
        {},
        rootless=True,
    )
    return asked


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("*.json")))
def test_recorded_spans_are_asked_only_for_what_is_read(name: str) -> None:
    traces: dict[str, list[Span]] = {}
    for span in recorded(name):
        traces.setdefault(span.trace_id, []).append(span)

    asked = set().union(*map(asked_for, traces.values()))

    assert asked <= HELD


@settings(deadline=None)
@given(heaps())
def test_any_heap_of_spans_is_asked_only_for_what_is_read(heap: list[Span]) -> None:
    assert asked_for(heap) <= HELD


@settings(deadline=None)
@given(st.integers(0, 1 << 32))
def test_made_traces_are_asked_only_for_what_is_read(seed: int) -> None:
    assert asked_for(made_trace(Random(seed))) <= HELD  # noqa: S311 - the same every time


def test_spans_below_a_request_are_asked_for_what_is_read() -> None:
    asked = asked_for(recorded("contrib_asgi"))

    assert {semconv.STAGE, semconv.INTERVALS, semconv.GEN_AI_OPERATION_NAME} <= asked


def test_requests_are_asked_for_by_nothing_that_is_not_read() -> None:
    assert UNREAD <= LEFT_OUT
    assert not UNREAD & HELD
    assert not RULED & (COUNTS | PACKED)
    assert all(is_read(key) for key in COUNTS | PACKED)
    assert not is_read("client.port")
    assert is_read("app.tenant")


def test_keys_vary_one_way_only() -> None:
    assert not COUNTS & PACKED


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (semconv.GEN_AI_USAGE_INPUT_TOKENS, 7, True),
        (semconv.GEN_AI_USAGE_INPUT_TOKENS, True, False),
        (semconv.GEN_AI_USAGE_INPUT_TOKENS, "7", False),
        (semconv.GEN_AI_USAGE_INPUT_TOKENS, 1 << 63, False),
        (semconv.INTERVALS, "respond:1+2", True),
        (semconv.INTERVALS, b"respond:1+2", True),
        (semconv.INTERVALS, None, False),
        (semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, 0.5, True),
        ("app.tenant", 7, False),
    ],
)
def test_a_value_of_another_type_belongs_to_the_shape(
    key: str, value: AttributeValue, *, expected: bool
) -> None:
    assert varies(key, value) is expected
