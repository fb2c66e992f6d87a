"""No attribute makes a difference below a request's own span that shapes and columns leave out."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.calls.retries import have_failed_calls
from latencytrace.analysis.columns.facts import TELLS_TIMES, TELLS_TOKENS, facts_of
from latencytrace.analysis.columns.keys import (
    ADDRESSES,
    CODES,
    COUNTS,
    KEYS,
    OF_CALLS,
    OF_REQUESTS,
    PACKED,
    RULED,
    THERE,
    having,
)
from latencytrace.analysis.ledger.metric_attributes import of_root
from latencytrace.analysis.ledger.requests import requests_of, status_of
from latencytrace.analysis.trace.routes import is_health, route_of
from latencytrace.analysis.trace.weight import STATED_IN
from latencytrace.model import Span, semconv
from tests.support.builders.spans.noted_attributes import Noting
from tests.support.builders.spans.recorded import FIXTURES, recorded
from tests.support.builders.spans.strategies import heaps
from tests.support.simulation.made_traces import made_trace

# How often the work on a message was tried is asked of those whose traces are odd.
HELD = COUNTS | PACKED | RULED | THERE | OF_CALLS | {semconv.RETRIES}


def asked_for(spans: Iterable[Span]) -> set[str]:
    """The keys that the analysis asks spans for which are no request's own, and no failed call's.

    Those of the latter that are tried again are odd, and so are spans that share an id. Engines
    are asked by whole spans.
    """
    spans = list(spans)
    if have_failed_calls(spans) or len({span.span_id for span in spans}) < len(spans):
        return set()
    roots = {request.span_id for request in requests_of(spans, {}, rootless=True)}
    asked: set[str] = set()
    requests_of(
        [
            span
            if span.span_id in roots or is_asked_whole(span)
            else replace(span, attributes=Noting(span.attributes, asked))
            for span in spans
        ],
        {},
        rootless=True,
    )
    return asked


def is_asked_whole(span: Span) -> bool:
    facts = facts_of(span)
    return bool(facts[TELLS_TIMES] or facts[TELLS_TOKENS])


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("*.json")))
def test_recorded_spans_are_asked_only_for_what_is_held(name: str) -> None:
    traces: dict[str, list[Span]] = {}
    for span in recorded(name):
        traces.setdefault(span.trace_id, []).append(span)

    asked = set().union(*map(asked_for, traces.values()))

    assert asked <= HELD


@given(heaps())
def test_any_heap_of_spans_is_asked_only_for_what_is_held(heap: list[Span]) -> None:
    assert asked_for(heap) <= HELD


@given(st.integers(0, 1 << 32))
def test_made_traces_are_asked_only_for_what_is_held(seed: int) -> None:
    assert asked_for(made_trace(Random(seed))) <= HELD


@given(heaps())
def test_a_request_is_asked_of_its_own_span_only_what_tells_it_from_others(
    heap: list[Span],
) -> None:
    asked: set[str] = set()
    for one in heap:
        span = replace(one, attributes=Noting(one.attributes, asked))
        of_root(span, status_of(span))
        route_of(span)
        is_health(span)

    assert asked <= OF_REQUESTS | {*ADDRESSES} | RULED | THERE | STATED_IN


def test_each_key_has_a_code_of_its_own() -> None:
    assert [CODES[key] for key in KEYS[1:]] == list(range(1, len(KEYS)))
    assert having(frozenset({"app.tenant"})).sum() == 0
    assert CODES.keys() >= COUNTS | PACKED | RULED | THERE | OF_CALLS | OF_REQUESTS


def test_keys_are_read_one_way_only() -> None:
    assert not COUNTS & PACKED
    assert not RULED & (COUNTS | PACKED | THERE)
