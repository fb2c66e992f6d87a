"""Failed attempts of one call, and the waits between them, are said to be retries; truth in ms."""

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import AttributeValue, Request, Span, SpanKind, Stage, StatusCode, semconv
from latencytrace.model.trace import Trace
from latencytrace.service.answers.requests import request_document
from tests.support.builders.spans.numbered import TRACE_ID
from tests.support.builders.spans.span_columns import SpanColumns, critical_paths
from tests.support.builders.spans.strategies import LAST_NS
from tests.support.builders.spans.trees import ROOT, root, span
from tests.support.compiled import COMPILED
from tests.support.simulation.by_columns import ByColumns, differences

CLIENT = SpanKind.CLIENT
CODE = semconv.HTTP_RESPONSE_STATUS_CODE


def call(
    span_id: str,
    start_ns: int,
    end_ns: int,
    code: int | None,
    *,
    path: str = "/v1/chat",
    parent: str = ROOT,
    more: Mapping[str, AttributeValue] | None = None,
) -> Span:
    noted: dict[str, AttributeValue] = {
        semconv.HTTP_REQUEST_METHOD: "POST",
        semconv.SERVER_ADDRESS: "api.example.com",
        semconv.URL_PATH: path,
        **({} if code is None else {CODE: code}),
        **(more or {}),
    }
    made = span(span_id, start_ns, end_ns, kind=CLIENT, parent=parent, attributes=noted)
    return replace(made, name="POST")


def served(*below: Span, end_ns: int = 100) -> Request:
    """The outermost request, from 0 on."""
    return requests_of([root(end_ns), *below], {})[0]


def test_failed_attempts_and_the_waits_after_them_are_retries() -> None:
    found = served(
        call("first", 0, 10, 503),
        call("second", 20, 30, 429),
        call("third", 50, 55, 500),
        call("last", 80, 100, 200),
    )

    assert found.ledger == {Stage.RETRY: 80, Stage.NETWORK: 20}
    assert request_document(found)["retries"] == 3


def test_an_attempt_that_failed_for_good_keeps_its_stage() -> None:
    found = served(call("first", 0, 10, 503), call("last", 60, 100, 503))

    assert found.ledger == {Stage.RETRY: 60, Stage.NETWORK: 40}


def test_what_the_server_did_for_a_failed_attempt_is_part_of_the_retry() -> None:
    at_work = span("decode", 5, 35, parent="served", service="llm", stage=Stage.DECODE)
    found = served(
        call("first", 0, 40, 500),
        span("served", 5, 38, parent="first", kind=SpanKind.SERVER, service="llm"),
        at_work,
        call("last", 60, 100, 200),
    )

    assert found.ledger == {Stage.RETRY: 60, Stage.NETWORK: 40}
    assert [segment.name for segment in found.segments] == ["POST", "POST"]
    assert request_document(found)["retries"] == 1


def test_the_request_of_the_server_that_failed_is_attributed_as_ever() -> None:
    spans = [
        root(),
        call("first", 0, 40, 500),
        span("served", 5, 38, parent="first", kind=SpanKind.SERVER, service="llm"),
        span("decode", 5, 35, parent="served", service="llm", stage=Stage.DECODE),
        call("last", 60, 100, 200),
    ]

    inner = requests_of(spans, {})[1]

    assert inner.ledger == {Stage.DECODE: 30, Stage.UNATTRIBUTED: 3}


def test_other_work_that_ran_in_the_wait_is_charged_as_itself() -> None:
    found = served(
        call("first", 0, 10, 503),
        span("look up", 30, 50, stage=Stage.CACHE),
        call("last", 80, 100, 200),
    )

    assert found.ledger == {Stage.RETRY: 60, Stage.CACHE: 20, Stage.NETWORK: 20}
    assert request_document(found)["retries"] == 1


def test_a_log_that_runs_beside_the_wait_takes_nothing_of_it() -> None:
    found = served(
        call("first", 0, 10, 503),
        call("last", 80, 100, 200),
        span("log", 5, 130, stage=Stage.DATABASE),
    )

    assert found.ledger == {Stage.RETRY: 80, Stage.NETWORK: 20}


def test_a_pause_that_the_client_tells_is_counted_with_its_attempt() -> None:
    found = served(
        call("first", 0, 10, 503),
        span("back-off", 12, 78, stage=Stage.RETRY),
        call("last", 80, 100, 200),
    )

    assert found.ledger == {Stage.RETRY: 80, Stage.NETWORK: 20}
    assert request_document(found)["retries"] == 1


def test_a_model_call_keeps_only_what_is_not_spent_on_its_attempts() -> None:
    found = served(
        span("chat", 0, 100, kind=CLIENT, attributes={semconv.GEN_AI_OPERATION_NAME: "chat"}),
        call("first", 2, 10, 429, parent="chat"),
        call("last", 60, 98, 200, parent="chat"),
    )

    assert found.ledger[Stage.RETRY] == 58
    assert found.ledger[Stage.REMOTE_MODEL] == 42


def test_a_span_of_work_keeps_the_time_between_its_calls() -> None:
    found = served(
        span("decode", 0, 100, stage=Stage.DECODE),
        call("first", 10, 12, 503, parent="decode"),
        call("second", 50, 52, 200, parent="decode"),
    )

    assert found.ledger == {Stage.DECODE: 98, Stage.RETRY: 2}


@pytest.mark.parametrize(
    ("failed", "following"),
    [
        pytest.param(
            call("a", 0, 10, 404), call("b", 50, 100, 200), id="the failure is an answer"
        ),
        pytest.param(call("a", 0, 10, 200), call("b", 50, 100, 200), id="nothing failed"),
        pytest.param(
            call("a", 0, 10, 503), call("b", 50, 100, 200, path="/v1/embed"), id="a path"
        ),
        pytest.param(call("a", 0, 60, 503), call("b", 50, 100, 200), id="they overlap: a hedge"),
    ],
)
def test_other_calls_are_no_retries(failed: Span, following: Span) -> None:
    found = served(failed, following)

    assert Stage.RETRY not in found.ledger
    assert request_document(found)["retries"] == 0


def test_a_hedge_that_lost_is_not_made_again_by_a_later_call() -> None:
    cancelled = replace(call("first", 0, 30, None), status=StatusCode.ERROR)

    found = served(cancelled, call("hedge", 10, 20, 200), call("later", 50, 100, 200))

    assert Stage.RETRY not in found.ledger


def test_the_clients_own_count_decides_where_it_tells_one() -> None:
    found = served(
        call("refused", 0, 10, 401),  # and then with another token, somewhere else
        call("again", 40, 100, 200, path="/v2/chat", more={semconv.HTTP_REQUEST_RESEND_COUNT: 1}),
    )

    assert found.ledger == {Stage.RETRY: 40, Stage.NETWORK: 60}


def test_a_redirect_is_counted_by_its_client_and_no_failure() -> None:
    found = served(
        call("moved", 0, 10, 307),
        call("there", 40, 100, 200, more={semconv.HTTP_REQUEST_RESEND_COUNT: 1}),
    )

    assert Stage.RETRY not in found.ledger


def test_counted_attempts_that_overlap_find_their_own() -> None:
    found = build_traces(
        [
            root(),
            call("a", 0, 20, 503),
            call("b", 5, 15, 503),
            call("b again", 18, 60, 200, more={semconv.HTTP_REQUEST_RESEND_COUNT: 1}),
            call("a again", 30, 100, 200, more={semconv.HTTP_REQUEST_RESEND_COUNT: 1}),
        ]
    )[0]

    assert found.retried == {"b": "b again", "a": "a again"}


@pytest.mark.parametrize(
    ("code", "retried"), [("UNAVAILABLE", 1), (14, 1), ("NOT_FOUND", 0), (5, 0)]
)
def test_grpc_calls_are_made_again_for_what_another_attempt_can_change(
    code: str | int, retried: int
) -> None:
    key = (
        semconv.RPC_RESPONSE_STATUS_CODE
        if isinstance(code, str)
        else semconv.RPC_GRPC_STATUS_CODE_OLD
    )
    noted = {semconv.RPC_SYSTEM_NAME: "grpc", semconv.RPC_METHOD: "Index/Search"}
    failed = span("a", 0, 10, kind=CLIENT, attributes={**noted, key: code})
    failed = replace(failed, name="Search", status=StatusCode.ERROR)
    again = replace(span("b", 50, 100, kind=CLIENT, attributes=noted), name="Search")

    assert request_document(served(failed, again))["retries"] == retried


def test_an_attempt_within_a_failed_attempt_is_counted_too() -> None:
    found = served(
        call("outer", 0, 60, 503),
        call("inner", 5, 20, 503, parent="outer", path="/proxied"),
        call("inner again", 30, 58, 503, parent="outer", path="/proxied"),
        call("outer again", 70, 100, 200),
    )

    assert found.ledger == {Stage.RETRY: 70, Stage.NETWORK: 30}
    assert request_document(found)["retries"] == 2


def attempt(span_id: str, start_ns: int, end_ns: int, parent: str, retries: int) -> Span:
    """Work on a message, in a worker."""
    noted = {semconv.RETRIES: retries} if retries else {}
    made = span(
        span_id, start_ns, end_ns, kind=SpanKind.CONSUMER, parent=parent, service="worker",
        attributes=noted,
    )  # fmt: skip
    return replace(made, name="task")


SEND = span("send", 10, 12, kind=SpanKind.PRODUCER)


def test_work_on_a_message_that_was_sent_again_is_a_failed_attempt() -> None:
    found = served(
        SEND,
        attempt("first", 20, 30, "send", 0),
        span("decode", 22, 29, parent="first", service="worker", stage=Stage.DECODE),
        attempt("second", 60, 65, "first", 1),
        attempt("third", 80, 95, "second", 2),
        span("forward", 80, 95, parent="third", service="worker", stage=Stage.FORWARD),
    )

    assert found.ledger == {
        Stage.QUEUE: 10,
        Stage.RETRY: 60,
        Stage.FORWARD: 15,
        Stage.UNATTRIBUTED: 15,
    }
    assert request_document(found)["retries"] == 2


@pytest.mark.parametrize(
    "following",
    [
        attempt("second", 60, 90, "first", 0),  # it sends another message of its kind
        replace(attempt("second", 60, 90, "first", 1), name="other"),
        replace(attempt("second", 60, 90, "first", 1), service="another"),
    ],
)
def test_work_that_sends_other_work_is_no_failed_attempt(following: Span) -> None:
    found = served(SEND, attempt("first", 20, 30, "send", 0), following)

    assert Stage.RETRY not in found.ledger
    assert request_document(found)["retries"] == 0


def test_attempts_that_nobody_awaited_are_requests_of_their_own() -> None:
    spans = [attempt("first", 120, 130, "send", 0), attempt("second", 160, 190, "first", 1)]

    outer, *inner = requests_of([root(100), SEND, *spans], {})

    assert Stage.RETRY not in outer.ledger
    assert [one.duration_ns for one in inner] == [118, 30]


@st.composite
def many_calls(draw: st.DrawFn) -> list[Span]:
    """Calls of a few targets, below each other and beside other work."""
    found = [root(LAST_NS)]
    for number in range(draw(st.integers(1, 9))):
        start_ns = draw(st.integers(0, LAST_NS))
        end_ns = draw(st.integers(start_ns, LAST_NS + 5))
        parent = draw(st.sampled_from(found)).span_id
        code = draw(st.sampled_from([200, 404, 503]))
        if draw(st.booleans()):
            path = draw(st.sampled_from(["/a", "/b"]))
            count = draw(st.sampled_from([{}, {}, {semconv.HTTP_REQUEST_RESEND_COUNT: 1}]))
            one = call(f"{number}", start_ns, end_ns, code, path=path, parent=parent, more=count)
        else:
            stage = draw(st.sampled_from([Stage.CACHE, Stage.DECODE, Stage.RETRY, None]))
            one = span(f"{number}", start_ns, end_ns, parent=parent, stage=stage)
        found.append(one)
    return found


@given(many_calls())
def test_whatever_is_made_again_every_nanosecond_is_charged_once(spans: list[Span]) -> None:
    (found,) = requests_of(spans, {})

    ends = [0, *(segment.end_ns for segment in found.segments)]
    assert [segment.start_ns for segment in found.segments] == ends[:-1]
    assert ends[-1] == found.duration_ns == sum(found.ledger.values())


def ordered(trace: Trace) -> Trace:
    """Return a trace whose spans of one time come by their ids, not as they were sent."""
    by_time = attrgetter("start_ns", "end_ns", "span_id")
    children = {
        above: tuple(sorted(below, key=by_time)) for above, below in trace.children.items()
    }
    return replace(trace, children=children)


@given(many_calls())
def test_attempts_are_found_again_in_what_they_made_of_a_trace(spans: list[Span]) -> None:
    once = build_traces(spans)[0]

    twice = build_traces(once.spans.values())[0]

    assert ordered(twice) == ordered(replace(once, unclipped=once.spans, repairs=()))


def calls_within_each_other(random: Random) -> list[Span]:
    """Calls as `many_calls` makes them, none beyond its parent, with attempts that are counted."""
    found = [root(LAST_NS)]
    for number in range(random.randint(1, 10)):
        above = random.choice(found)
        start_ns = random.randint(above.start_ns, above.end_ns)
        times = start_ns, random.randint(start_ns, above.end_ns)
        if random.random() < 0.7:
            code, path = (
                random.choice([200, 404, 429, 503, 503]),
                random.choice(["/a", "/a", "/b"]),
            )
            counted = {semconv.HTTP_REQUEST_RESEND_COUNT: random.randint(1, 3)}
            more = counted if random.random() < 0.25 else {}
            one = call(f"{number}", *times, code, path=path, parent=above.span_id, more=more)
        else:
            stage = random.choice([Stage.CACHE, Stage.DECODE, Stage.RETRY, None])
            one = span(f"{number}", *times, parent=above.span_id, stage=stage)
        found.append(replace(one, service="other") if random.random() < 0.1 else one)
    return found


@COMPILED
@given(st.integers(0, 1 << 32))
def test_columns_charge_retries_as_objects_do(seed: int) -> None:
    random = Random(seed)
    spans = calls_within_each_other(random)
    numbers = random.sample(range(1, 100), len(spans))
    ids = {one.span_id: f"{number:016x}" for one, number in zip(spans, numbers, strict=True)}
    traces = {
        TRACE_ID: [
            replace(one, trace_id=TRACE_ID, span_id=ids[one.span_id], parent_id=parent)
            for one in spans
            for parent in [ids.get(one.parent_id or "")]
        ]
    }

    found, _ = ByColumns()(traces)

    assert differences(found, traces) == []


@COMPILED
@given(many_calls())
def test_both_forms_of_the_critical_path_agree_on_retries(spans: list[Span]) -> None:
    traces = build_traces(spans)

    assert critical_paths(SpanColumns.of(traces)) == list(map(critical_path, traces))
