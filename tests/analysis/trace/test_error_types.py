"""Types of the exceptions that spans and requests failed with."""

from dataclasses import replace

import pytest

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.trace.error_types import MOST_CHARACTERS, error_type, failed_by
from latencytrace.model import Event, Span, SpanKind, Stage, StatusCode, semconv
from tests.support.builders.spans.trees import root, span

TIMEOUT, KEY = "httpx.ReadTimeout", "KeyError"


def raised(one: Span, kind: str, *, status: StatusCode = StatusCode.ERROR) -> Span:
    """The same span, which an exception of this type went through."""
    attributes = {semconv.EXCEPTION_TYPE: kind, semconv.EXCEPTION_MESSAGE: "<removed>"}
    event = Event(time_ns=one.end_ns, name=semconv.EXCEPTION_EVENT, attributes=attributes)
    return replace(one, status=status, events=(*one.events, event))


def answered(one: Span, error: str) -> Span:
    """The same span, with an `error.type`."""
    attributes = {**one.attributes, semconv.ERROR_TYPE: error}
    return replace(one, status=StatusCode.ERROR, attributes=attributes)


def failed(*spans: Span) -> tuple[str, str] | None:
    """The span whose exception failed the request, and its type."""
    (trace,) = build_traces(spans)
    found = failed_by(trace)
    return None if found is None else (found[0].span_id, found[1])


def test_a_span_has_the_type_of_its_last_exception() -> None:
    once = raised(span("call", 0, 10), TIMEOUT)

    assert error_type(raised(once, KEY)) == KEY


def test_a_span_without_an_exception_has_its_error_type() -> None:
    assert error_type(answered(span("call", 0, 10), "503")) == "503"


def test_a_call_that_its_server_failed_to_answer_is_what_failed_a_request() -> None:
    code = {semconv.HTTP_RESPONSE_STATUS_CODE: 503}
    call = replace(span("call", 10, 90, attributes=code), kind=SpanKind.CLIENT)

    assert error_type(call) == "503"
    assert failed(replace(root(), status=StatusCode.ERROR), call) == (call.span_id, "503")


def test_an_exception_says_more_than_the_status_of_an_answer() -> None:
    assert error_type(raised(answered(span("call", 0, 10), "500"), KEY)) == KEY


def test_an_exception_that_was_recorded_and_handled_is_none() -> None:
    assert error_type(raised(span("call", 0, 10), KEY, status=StatusCode.UNSET)) is None


@pytest.mark.parametrize("told", ["", 7, ("KeyError",)])
def test_what_is_no_name_is_none(told: object) -> None:
    one = span("call", 0, 10, attributes={semconv.ERROR_TYPE: told})  # type: ignore[dict-item]

    assert error_type(one) is None


def test_a_type_of_any_length_is_cut() -> None:
    assert error_type(answered(span("call", 0, 10), "x" * 10_000)) == "x" * MOST_CHARACTERS


def test_a_request_that_did_not_fail_has_no_type_whatever_failed_below() -> None:
    assert failed(root(), raised(span("retrieve", 0, 10), KEY)) is None


def test_the_innermost_span_of_the_requests_own_exception_is_named() -> None:
    assert failed(
        raised(root(), KEY),
        raised(span("retrieve", 0, 90), KEY),
        raised(span("search", 10, 80, parent="retrieve"), KEY),
    ) == ("search", KEY)


def test_an_exception_that_became_another_one_is_not_named() -> None:
    assert failed(
        raised(root(), "RuntimeError"),
        raised(span("retrieve", 0, 90), "RuntimeError"),
        raised(span("search", 10, 80, parent="retrieve"), KEY),
    ) == ("retrieve", "RuntimeError")


def test_where_the_request_tells_a_status_only_the_failed_span_below_tells_the_type() -> None:
    assert failed(
        answered(root(), "500"),
        raised(span("retrieve", 0, 50), KEY),
        raised(span("generate", 50, 90), TIMEOUT),
    ) == ("generate", TIMEOUT)


def test_a_failure_that_other_work_followed_was_handled() -> None:
    assert failed(
        answered(root(), "500"),
        raised(span("first", 0, 50), KEY),
        span("second", 50, 90, stage=Stage.RETRIEVE),
    ) == ("root", "500")


def test_what_is_sent_after_a_failure_is_no_other_work() -> None:
    assert failed(
        answered(root(), "500"),
        raised(span("first", 0, 50), KEY),
        span("send", 50, 90, stage=Stage.RESPOND),
    ) == ("first", KEY)


def test_a_request_that_failed_and_tells_nothing_has_no_type() -> None:
    assert failed(replace(root(), status=StatusCode.ERROR)) is None
