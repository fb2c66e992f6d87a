"""Who shared a step, and the estimate of each member's share."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.gpu.shared_steps import apportioned, shared_step
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.trace.is_request import is_request, is_shared
from latencytrace.model import (
    Attributes,
    AttributeValue,
    Link,
    ShareBasis,
    SharedStep,
    Span,
    SpanKind,
    Stage,
    semconv,
)
from tests.support.builders.spans.strategies import heaps

STEP_TRACE, STEP = "5" * 32, "5" * 16


def link_to_step() -> Link:
    return Link(trace_id=STEP_TRACE, span_id=STEP, attributes={semconv.SHARED: True})


def member(number: int, tokens: int | None = None, *, links: bool = True) -> Span:
    """What a step was to one request."""
    told: Attributes = {} if tokens is None else {semconv.BATCH_TOKENS: tokens}
    return Span(
        trace_id=f"{number + 1:032x}",
        span_id=f"{number + 1:016x}",
        parent_id="a" * 16,
        name="forward",
        start_ns=0,
        end_ns=100,
        attributes=told,
        links=(link_to_step(),) if links else (),
    )


def step(
    *members: Span,
    wall_ns: int = 100,
    stage: Stage = Stage.FORWARD,
    told: Attributes | None = None,
) -> Span:
    """A shared span with links to these."""
    return Span(
        trace_id=STEP_TRACE,
        span_id=STEP,
        parent_id=None,
        name=stage.value,
        start_ns=0,
        end_ns=wall_ns,
        attributes={semconv.STAGE: stage.value, semconv.SHARED: True, **(told or {})},
        links=tuple(Link(trace_id=one.trace_id, span_id=one.span_id) for one in members),
    )


def shares(found: SharedStep) -> dict[str, int]:
    """By the member's number."""
    return {one.trace_id.lstrip("0"): one.share_ns for one in found.members}


@st.composite
def steps(draw: st.DrawFn) -> tuple[Span, list[Span]]:
    """A step with members linked either way, tokens told or not, some of them unknown."""
    tokens = draw(st.lists(st.none() | st.integers(0, 10**6), max_size=9))
    members = [
        member(number, count, links=draw(st.booleans())) for number, count in enumerate(tokens)
    ]
    named = [one for one in members if draw(st.booleans())]
    told: dict[str, AttributeValue] = {}
    if draw(st.booleans()):
        told[semconv.BATCH_SIZE] = draw(st.integers(-1, 12))
    if draw(st.booleans()):
        told[semconv.BATCH_TOKENS] = draw(st.integers(-1, 10**7))
    made = step(
        *named,
        wall_ns=draw(st.integers(-5, 10**10)),
        stage=draw(st.sampled_from([Stage.FORWARD, Stage.PREFILL, Stage.DECODE])),
        told=told,
    )
    return made, members


@given(steps())
def test_the_shares_of_a_step_add_up_to_the_step_exactly(made: tuple[Span, list[Span]]) -> None:
    found = shared_step(*made)

    assert sum(shares(found).values()) + found.unknown_share_ns == found.wall_ns
    assert min([found.unknown_share_ns, *shares(found).values()]) >= 0
    assert len(found.members) + found.unknown_members == found.size


@given(steps(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(
    made: tuple[Span, list[Span]], order: st.DataObject
) -> None:
    span, members = made
    shuffled = list(members)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # a `random.Random`

    assert shared_step(span, shuffled) == shared_step(span, members)


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**6), min_size=1).filter(any))
def test_each_part_is_less_than_one_from_its_exact_value(whole: int, weights: list[int]) -> None:
    parts = apportioned(whole, weights)

    assert sum(parts) == whole
    off = [
        abs(part * sum(weights) - whole * weight)
        for part, weight in zip(parts, weights, strict=True)
    ]
    assert max(off) < sum(weights)


def test_members_are_those_linked_in_either_direction() -> None:
    named, naming, stranger = member(0, links=False), member(1), member(2, links=False)

    found = shared_step(step(named), [named, naming, stranger])

    assert shares(found) == {"1": 50, "2": 50}


def test_a_member_whose_span_is_not_there_is_known_by_its_link() -> None:
    found = shared_step(step(member(0)), [])

    assert [(one.trace_id, one.span) for one in found.members] == [(f"{1:032x}", None)]


def test_prefill_is_apportioned_by_tokens() -> None:
    members = [member(0, 32_000), member(1, 500), member(2, 500)]

    found = shared_step(step(*members, wall_ns=330, stage=Stage.PREFILL), members)

    assert found.basis is ShareBasis.TOKENS
    assert shares(found) == {"1": 320, "2": 5, "3": 5}
    assert found.tokens == 33_000


def test_decode_is_apportioned_equally_whatever_the_tokens() -> None:
    members = [member(0, 32_000), member(1, 500)]

    found = shared_step(step(*members, stage=Stage.DECODE), members)

    assert (found.basis, shares(found)) == (ShareBasis.EQUAL, {"1": 50, "2": 50})


def test_one_member_without_tokens_makes_all_parts_equal() -> None:
    members = [member(0, 32_000), member(1)]

    found = shared_step(step(*members), members)

    assert (found.basis, shares(found), found.tokens) == (
        ShareBasis.EQUAL,
        {"1": 50, "2": 50},
        None,
    )


def test_what_does_not_divide_goes_to_the_first_of_those_that_tie() -> None:
    members = [member(number) for number in range(3)]

    assert shares(shared_step(step(*members), members)) == {"1": 34, "2": 33, "3": 33}


def test_members_that_no_link_leads_to_keep_their_part() -> None:
    members = [member(0)]

    found = shared_step(step(*members, told={semconv.BATCH_SIZE: 4}), members)

    assert (found.size, found.unknown_members, found.unknown_share_ns) == (4, 3, 75)


def test_members_that_no_link_leads_to_keep_the_tokens_that_are_left() -> None:
    members = [member(0, 30)]
    told = {semconv.BATCH_SIZE: 4, semconv.BATCH_TOKENS: 120}

    found = shared_step(step(*members, told=told), members)

    assert (found.basis, found.unknown_share_ns) == (ShareBasis.TOKENS, 75)


def test_a_step_without_members_is_nobodys() -> None:
    found = shared_step(step(), [])

    assert (found.size, found.unknown_share_ns) == (0, 100)


def test_spans_of_the_steps_own_trace_are_no_members() -> None:
    inner = replace(member(0), trace_id=STEP_TRACE)

    assert shared_step(step(inner), [inner]).members == ()


# A shared step is no request


TGI = Span(
    trace_id=STEP_TRACE,
    span_id=STEP,
    parent_id=None,
    name="batch",
    start_ns=0,
    end_ns=9,
    attributes={semconv.TGI_BATCH_SIZE: 2},
)


@pytest.mark.parametrize("span", [step(), TGI], ids=["ours", "text-generation-inference"])
def test_a_shared_step_is_a_root_but_no_request(span: Span) -> None:
    assert is_shared(span)
    assert not is_request(span, None)
    assert build_traces([span]) == ()


@pytest.mark.parametrize(
    "attributes", [{}, {semconv.SHARED: False}, {semconv.SHARED: "yes"}], ids=str
)
def test_any_other_root_is_one(attributes: Attributes) -> None:
    span = replace(step(), attributes=attributes)

    assert is_request(span, None)
    assert len(build_traces([span])) == 1


@given(heaps(), st.data())
def test_whatever_arrives_no_step_is_a_request_and_ledgers_balance(
    heap: list[Span], data: st.DataObject
) -> None:
    marked = [
        replace(span, attributes={**span.attributes, semconv.SHARED: data.draw(st.booleans())})
        for span in heap
    ]

    for found in requests_of(marked, {}):
        assert sum(found.ledger.values()) == found.duration_ns
    roots = [trace.root for trace in build_traces(marked)]
    assert [root for root in roots if root.parent_id is None and is_shared(root)] == []


def test_orphans_of_a_step_wait_for_no_request() -> None:
    orphan = replace(member(0), trace_id=STEP_TRACE, parent_id="9" * 16)

    assert build_traces([step(), orphan]) == ()


def test_a_service_that_a_step_calls_has_a_request_of_its_own() -> None:
    call = replace(member(0), trace_id=STEP_TRACE, parent_id=STEP, kind=SpanKind.CLIENT)
    served = replace(
        call, span_id="7" * 16, parent_id=call.span_id, kind=SpanKind.SERVER, service="embedder"
    )

    (found,) = build_traces([served, call, step()])

    assert (found.root.service, found.outermost) == ("embedder", False)
