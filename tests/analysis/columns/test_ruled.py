"""Spans of one ruled part have the same facts, whatever else they say."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import latencytrace.analysis
from latencytrace.analysis.columns.facts import UNKNOWN_PARENT, facts_of
from latencytrace.analysis.columns.keys import COUNTS, PACKED, RULED, THERE
from latencytrace.analysis.columns.shapes import ASKED, ruled, ruled_text
from latencytrace.analysis.dialects.engine import (
    NOTHING_GENERATED,
    NOTHING_TOLD,
    Engine,
)
from latencytrace.analysis.trace.known_engines import ENGINES, engine_of
from latencytrace.model import Event, Span, SpanKind, semconv
from tests.support.builders.spans.noted_attributes import Noting
from tests.support.builders.spans.numbered import span
from tests.support.builders.spans.recorded import FIXTURES, recorded
from tests.support.builders.spans.strategies import heaps
from tests.support.few import few

RULES = Path(latencytrace.analysis.__file__).parent
ROOMS = ("trace", "engines", "dialects")
SCOPES = (
    "", "app", "fastapi", "opentelemetry.instrumentation.asgi", "chromadb.telemetry.opentelemetry",
    *(scope for engine in ENGINES for scope in engine.scopes),
)  # fmt: skip


def said_by_rules() -> Iterator[str]:
    """Each text that stands in a rule."""
    files = [RULES.parent / "model" / "stage.py"]
    files += [file for room in ROOMS for file in (RULES / room).glob("*.py")]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and len(text) < 60 and "\n" not in text:
                yield text


TEXTS = sorted(set(said_by_rules()) | ASKED.words | {*ASKED.starts, *ASKED.ends})


def variants(text: str) -> Iterator[str]:
    yield from (text, f"{text} x", f"x {text}", text.capitalize())


@cache
def facts_of_ruled(written: str, parent_id: str | None) -> list[int]:
    return facts_of(replace(RULED_PARTS[written], parent_id=parent_id))


def same_facts(one: Span, parents: Sequence[str | None] = (None, UNKNOWN_PARENT)) -> bool:
    """Whether a span has the facts of its ruled part, as a root and below another span."""
    left = ruled(one)
    RULED_PARTS[written := repr(left)] = left
    return all(
        facts_of(replace(one, parent_id=parent)) == facts_of_ruled(written, parent)
        for parent in parents
    )


RULED_PARTS: dict[str, Span] = {}


@pytest.mark.parametrize("scope", few(10, sorted(set(SCOPES))))
def test_a_name_with_any_text_of_a_rule_has_the_facts_of_its_ruled_part(scope: str) -> None:
    spans = [span(1, 0, 9, name=name, scope=scope) for text in TEXTS for name in variants(text)]

    assert [one.name for one in spans if not same_facts(one, [UNKNOWN_PARENT])] == []
    assert [one.name for one in spans[::4] if not same_facts(one, [None])] == []


@pytest.mark.parametrize("key", few(16, sorted(RULED | THERE)))
def test_a_value_with_any_text_of_a_rule_has_the_facts_of_its_ruled_part(key: str) -> None:
    values = [
        *(value for text in (TEXTS if key in RULED else ()) for value in variants(text)),
        "", None, True, False, 0, 1, 14, -1, 408, 429, 500, 10**6, 0.0, 0.5, b"", b"x", (),
        ("stop",), ("", "x"), "\u212ann_search",
    ]  # fmt: skip
    spans = [
        span(1, 0, 9, kind=SpanKind.CLIENT, scope=scope, attributes=more | {key: value})
        for value in values
        for scope, more in (("", {}), ("litellm", {semconv.DB_SYSTEM_NAME: "OpenSearch"}))
    ]

    assert [one for one in spans if not same_facts(one, [UNKNOWN_PARENT])] == []


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("*.json")))
def test_recorded_spans_have_the_facts_of_their_ruled_parts(name: str) -> None:
    assert [one for one in recorded(name) if not same_facts(one)] == []


@given(heaps())
def test_any_span_has_the_facts_of_its_ruled_part(heap: list[Span]) -> None:
    assert [one for one in heap if not same_facts(one)] == []


@given(st.text())
def test_what_is_known_of_a_text_is_known_of_what_is_left_of_it(text: str) -> None:
    assert ruled_text(ruled_text(text)) == ruled_text(text)


@given(heaps())
def test_rules_ask_for_no_attribute_beside_those_of_the_ruled_part(heap: list[Span]) -> None:
    asked: set[str] = set()
    for one in heap:
        facts_of(replace(one, attributes=Noting(one.attributes, asked)))

    assert asked <= RULED | THERE | COUNTS | PACKED


@given(heaps())
def test_a_span_without_what_its_engine_reads_tells_nothing(heap: list[Span]) -> None:
    engines = [(one, engine) for one in heap if (engine := engine_of(one)) is not None]
    silent = [(one, engine) for one, engine in engines if not engine.may_tell_times(one)]
    assert {engine.times(one, ()) for one, engine in silent} <= {NOTHING_TOLD}
    silent = [(one, engine) for one, engine in engines if not engine.may_tell_tokens(one)]
    assert {engine.generation(one) for one, engine in silent} <= {NOTHING_GENERATED}


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_an_engine_reads_no_more_than_it_names(engine: Engine) -> None:
    asked: set[str] = set()
    attributes = Noting(dict.fromkeys(engine.reported_in or (), 1), asked)
    for name in ("step", *engine.asked.words):
        scope = engine.scopes[0] if engine.scopes else ""
        one = span(1, 0, 9, name=name, scope=scope, attributes=attributes)
        engine.times(one, ())
        engine.generation(one)

    assert engine.reported_in is None or asked <= engine.reported_in | RULED


@pytest.mark.parametrize(
    "more",
    [
        {"span_id": "b" * 16},
        {"start_ns": 5, "end_ns": 6},
        {"service": "other", "instance": "b", "host": "c", "version": "d"},
        {"name": "step 0a1b2c"},
        {"attributes": {"app.tenant": "x", semconv.HTTP_ROUTE: "/b", semconv.ERROR_TYPE: "E"}},
        {"attributes": {semconv.ERROR_TYPE: "other", semconv.GEN_AI_RESPONSE_MODEL: ()}},
        {"events": (Event(time_ns=1, name="cache.miss"), Event(time_ns=2, name="b"))},
    ],
    ids=["id", "times", "resource", "name", "what it carries", "a word of no rule", "events"],
)
def test_these_make_no_difference(more: dict[str, object]) -> None:
    attributes = {semconv.ERROR_TYPE: "E"}
    usual = span(1, 0, 9, name="step", attributes=attributes, events=(Event(time_ns=0, name="a"),))
    other = replace(usual, **more)  # type: ignore[arg-type] # fields of a span

    assert {**ruled(usual).attributes}.keys() <= {semconv.ERROR_TYPE}
    assert replace(ruled(usual), attributes={}) == replace(ruled(other), attributes={})


def test_how_many_ruled_parts_there_are_depends_on_rules_alone() -> None:
    texts = [text for text in TEXTS if not any(part in text for part in ASKED.parts)]
    every = {ruled(span(1, 0, 9, name=f"{text} {at}")).name for text in texts for at in range(9)}

    assert len(every) < len(TEXTS) / 4
