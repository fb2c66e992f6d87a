"""Shared steps of the real store: the requests served together, and what each cost the others."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.errors import NotFoundError, QuestionError
from latencytrace.model import Attributes, Link, Span, SpanKind, Stage, semconv
from latencytrace.service.answers import requests as answers
from latencytrace.service.answers import steps
from latencytrace.service.answers.documents import RequestDocument, StepDocument
from latencytrace.service.answers.steps import MOST_OTHERS, MOST_STEPS
from latencytrace.service.net.problems import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.spans.otlp_messages import START_NS, columns, one_span, otlp
from tests.support.tables.ledger_tables import write

MS = 1_000_000
WAIT_MS, STEP_MS = 10, 30


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = ChdbStore.open(tmp_path_factory.mktemp("steps"))
    yield store
    store.close()


class Together:
    """Requests that were served in one batch; ids begin with the test's letter."""

    def __init__(
        self, store: Store, letter: str, tokens: tuple[int | None, ...], stage: Stage
    ) -> None:
        self.store = store
        self.letter = letter
        self.tokens = tokens
        self.step_trace, self.step_id = letter * 32, letter * 16
        self.stage = stage

    def trace_id(self, number: int) -> str:
        """The trace of a request."""
        return f"{self.letter}{number + 1:031x}"

    def span_id(self, number: int) -> str:
        """The span of the batch in a request's trace."""
        return f"{self.letter}{number + 1:015x}"

    def request(self, number: int, *, links: bool = True) -> list[Span]:
        """A request that waits, and is served."""
        root = one_span(self.trace_id(number), start_ns=START_NS, end_ns=START_NS + 50 * MS)
        wait = self._below(root, "0" * 15 + "2", Stage.QUEUE, 0, WAIT_MS)
        served = self._below(
            root, self.span_id(number), self.stage, WAIT_MS, WAIT_MS + STEP_MS, self.told(number)
        )
        to_step = Link(
            trace_id=self.step_trace, span_id=self.step_id, attributes={semconv.SHARED: True}
        )
        return [root, wait, replace(served, links=(to_step,) if links else ())]

    def _below(
        self,
        root: Span,
        span_id: str,
        stage: Stage,
        start_ms: int,
        end_ms: int,
        told: Attributes | None = None,
    ) -> Span:
        return one_span(
            root.trace_id,
            span_id,
            parent_id=root.span_id,
            name=stage.value,
            kind=SpanKind.INTERNAL,
            start_ns=START_NS + start_ms * MS,
            end_ns=START_NS + end_ms * MS,
            attributes={semconv.STAGE: stage.value, **(told or {})},
        )

    def told(self, number: int) -> Attributes:
        """The attributes of the batch in a request's span."""
        tokens = self.tokens[number]
        size = {semconv.BATCH_SIZE: len(self.tokens)}
        return size if tokens is None else {**size, semconv.BATCH_TOKENS: tokens}

    def step(self, *, links: bool = True) -> Span:
        """The shared span."""
        made = one_span(
            self.step_trace,
            self.step_id,
            name=self.stage.value,
            kind=SpanKind.INTERNAL,
            start_ns=START_NS + WAIT_MS * MS,
            end_ns=START_NS + (WAIT_MS + STEP_MS) * MS,
            attributes={
                semconv.STAGE: self.stage.value,
                semconv.SHARED: True,
                semconv.BATCH_SIZE: len(self.tokens),
            },
        )
        members = range(len(self.tokens)) if links else ()
        return replace(
            made,
            links=tuple(
                Link(trace_id=self.trace_id(number), span_id=self.span_id(number))
                for number in members
            ),
        )

    def arrive(self, *spans: Span) -> None:
        """Take them into the store, and divide their requests."""
        self.store.insert([columns(otlp(*spans))])
        found = [
            request
            for trace_id in {span.trace_id for span in spans}
            for request in requests_of([one for one in spans if one.trace_id == trace_id], {})
        ]
        write(self.store, found, {span.trace_id for span in spans})

    def all_arrive(self) -> None:
        """Every request, and the step."""
        requests = [span for number in range(len(self.tokens)) for span in self.request(number)]
        self.arrive(self.step(), *requests)

    def found(self) -> dict[str, Any]:
        """The document of the step."""
        return typed(StepDocument, steps.step(self.store, self.step_id))

    def request_found(self, number: int) -> dict[str, Any]:
        """The document of a request."""
        found = answers.request(
            self.store, self.trace_id(number), None, lambda _: None, lambda _: []
        )
        return typed(RequestDocument, found)


def typed(described: type, document: object) -> dict[str, Any]:
    """A document as it is read, which must be as the API describes it."""
    encoded = bytes(JsonAnswer(document).body)
    closed = TypeAdapter[object](described)
    read: dict[str, Any] = json.loads(encoded)
    assert closed.dump_python(closed.validate_json(encoded, strict=False), mode="json") == read
    return read


def shares(document: Mapping[str, Any]) -> list[tuple[str, int]]:
    return [(one["trace_id"], one["share_ns"]) for one in document["members"]]


def test_a_step_has_its_members_and_their_shares_add_up_to_it(opened: Store) -> None:
    batch = Together(opened, "a", (1_000, 500, 1), Stage.PREFILL)
    batch.all_arrive()

    found = batch.found()

    assert (found["size"], found["tokens"], found["basis"]) == (3, 1_501, "tokens")
    assert (found["stage"], found["wall_ns"]) == ("prefill", STEP_MS * MS)
    assert [trace_id for trace_id, _ in shares(found)] == [batch.trace_id(n) for n in range(3)]
    assert sum(share for _, share in shares(found)) == STEP_MS * MS
    assert found["unknown_share_ns"] == 0
    assert found["members"][0] == {
        "trace_id": batch.trace_id(0),
        "span_id": batch.span_id(0),
        "service": "rag",
        "route": "POST /chat",
        "tokens": 1_000,
        "wall_ns": STEP_MS * MS,
        "share_ns": shares(found)[0][1],
    }


def test_members_are_found_by_their_own_links_where_the_step_has_none(opened: Store) -> None:
    batch = Together(opened, "b", (None, None), Stage.FORWARD)
    batch.arrive(batch.step(links=False), *batch.request(0), *batch.request(1))

    found = batch.found()

    assert shares(found) == [(batch.trace_id(0), 15 * MS), (batch.trace_id(1), 15 * MS)]
    assert (found["basis"], found["unknown_members"]) == ("equal", 0)


def test_members_that_did_not_arrive_keep_their_part(opened: Store) -> None:
    batch = Together(opened, "c", (None, None, None), Stage.FORWARD)
    batch.arrive(batch.step(), *batch.request(0))

    found = batch.found()

    assert [one["wall_ns"] for one in found["members"]] == [STEP_MS * MS, None, None]
    assert [one["service"] for one in found["members"]] == ["rag", None, None]
    assert sum(share for _, share in shares(found)) == STEP_MS * MS


def test_a_request_names_who_slowed_it(opened: Store) -> None:
    batch = Together(opened, "d", (1, 2_000, 5, 4, 3), Stage.PREFILL)
    batch.all_arrive()

    (step,) = batch.request_found(0)["shared_steps"]

    assert (step["span_id"], step["held_up_ns"], step["size"]) == (batch.step_id, STEP_MS * MS, 5)
    others = step["largest_others"]
    assert [one["trace_id"] for one in others] == [batch.trace_id(n) for n in (1, 2, 3)]
    assert len(others) == MOST_OTHERS
    assert others[0]["share_ns"] > 0.99 * STEP_MS * MS
    assert 0 < step["share_ns"] < 0.01 * STEP_MS * MS


def test_a_step_that_did_not_arrive_is_told_by_its_member(opened: Store) -> None:
    batch = Together(opened, "e", (7, 8), Stage.FORWARD)
    batch.arrive(*batch.request(0))

    (step,) = batch.request_found(0)["shared_steps"]

    assert (step["span_id"], step["size"], step["held_up_ns"]) == (
        batch.step_id,
        2,
        STEP_MS * MS,
    )
    assert (step["share_ns"], step["basis"], step["largest_others"]) == (None, None, [])


def test_a_request_that_shared_nothing_has_no_steps(opened: Store) -> None:
    alone = Together(opened, "f", (None,), Stage.FORWARD)
    alone.arrive(*alone.request(0, links=False))

    found = alone.request_found(0)

    assert (found["shared_steps"], found["shared_steps_left_out"]) == ([], 0)


def test_of_many_steps_those_that_held_it_up_longest_are_told(opened: Store) -> None:
    trace_id = "9" * 32
    root = one_span(trace_id, start_ns=START_NS, end_ns=START_NS + 1_000 * MS)
    served, at_ms = [], 0
    for number in range(1, MOST_STEPS + 3):
        link = Link(
            trace_id=f"{number:032x}",
            span_id=f"{number:016x}",
            attributes={semconv.SHARED: True},
        )
        step = one_span(
            trace_id,
            f"9{number:015x}",
            parent_id=root.span_id,
            start_ns=START_NS + at_ms * MS,
            end_ns=START_NS + (at_ms + number) * MS,
            attributes={semconv.STAGE: "decode"},
        )
        served.append(replace(step, links=(link,)))
        at_ms += number
    Together(opened, "9", (), Stage.DECODE).arrive(root, *served)

    found = answers.request(opened, trace_id, None, lambda _: None, lambda _: [])

    assert [one["held_up_ns"] for one in found["shared_steps"]] == [
        number * MS for number in range(MOST_STEPS + 2, 2, -1)
    ]
    assert found["shared_steps_left_out"] == 2


def test_what_is_no_step_is_refused_by_name(opened: Store) -> None:
    alone = Together(opened, "8", (None,), Stage.FORWARD)
    alone.arrive(*alone.request(0))

    with pytest.raises(QuestionError, match="16 hex digits"):
        steps.step(opened, "xyz")
    with pytest.raises(NotFoundError, match="never arrived"):
        steps.step(opened, "7" * 16)
    with pytest.raises(NotFoundError, match=f"no shared step.*{alone.trace_id(0)}"):
        steps.step(opened, alone.span_id(0))


def test_whoever_asks_for_a_steps_trace_is_told_where_it_is(opened: Store) -> None:
    batch = Together(opened, "6", (None,), Stage.FORWARD)
    batch.all_arrive()

    with pytest.raises(NotFoundError, match=f"/api/v1/steps/{batch.step_id}"):
        answers.request(opened, batch.step_trace, None, lambda _: None, lambda _: [])


def test_a_step_with_more_than_a_thousand_members_is_whole(opened: Store) -> None:
    batch = Together(opened, "5", (None,) * 1_500, Stage.DECODE)
    batch.arrive(batch.step())

    found = batch.found()

    assert len(found["members"]) == 1_500
    assert sum(share for _, share in shares(found)) == STEP_MS * MS
