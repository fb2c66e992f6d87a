"""The call that made requests fail is named, not what stands above it."""

from collections.abc import Mapping
from dataclasses import replace

from latencytrace.analysis.slo.guilty_stage import failing_call
from latencytrace.model import AttributeValue, Event, Span, SpanKind, Stage, StatusCode, semconv
from tests.support.builders.spans.otlp_messages import START_NS, one_span

REQUEST = "00000000000000aa"


def span(
    number: int,
    parent: int | None,
    name: str,
    *,
    fails: bool = True,
    end: int = 10,
    attributes: Mapping[str, str] | None = None,
) -> Span:
    made = one_span(
        span_id=f"{number:016x}",
        parent_id=REQUEST if parent is None else f"{parent:016x}",
        name=name,
        kind=SpanKind.CLIENT,
        end_ns=START_NS + end,
        attributes=dict(attributes or {}),
    )
    return replace(made, status=StatusCode.ERROR if fails else StatusCode.OK)


ROOT = replace(one_span(span_id=REQUEST), status=StatusCode.ERROR)
NAMED = {semconv.STAGE: "retrieve", semconv.ERROR_TYPE: "Timeout"}
SEARCH = span(2, 1, "search", attributes=NAMED)


def test_it_is_the_deepest_call_that_failed() -> None:
    found = failing_call({REQUEST: [ROOT, span(1, None, "answer"), SEARCH]})

    assert found is not None
    assert (found.name, found.stage, found.error) == ("search", Stage.RETRIEVE, "Timeout")
    assert found.share_ratio == 1


def test_of_two_it_is_the_last_for_the_first_was_tried_again() -> None:
    spans = [ROOT, span(1, None, "first try", end=5), span(2, None, "second try", end=9)]

    found = failing_call({REQUEST: spans})
    assert found is not None
    assert found.name == "second try"


def test_a_call_beside_the_request_is_not_blamed() -> None:
    elsewhere = span(3, 9, "another request's")

    assert failing_call({REQUEST: [ROOT, elsewhere]}) is None


def test_a_call_that_found_nothing_is_not_blamed_as_one_that_broke_is() -> None:
    def answered(code: int) -> Span:
        noted: dict[str, AttributeValue] = {semconv.HTTP_RESPONSE_STATUS_CODE: code}
        return replace(span(1, None, "GET"), attributes=noted)

    assert failing_call({REQUEST: [ROOT, answered(404)]}) is None
    assert failing_call({REQUEST: [ROOT, answered(502)]}) is not None


def test_a_call_that_a_server_failed_to_answer_is_blamed_though_nobody_marked_it() -> None:
    noted: dict[str, AttributeValue] = {semconv.HTTP_RESPONSE_STATUS_CODE: 503}
    call = replace(span(1, None, "GET", fails=False), attributes=noted)

    found = failing_call({REQUEST: [ROOT, call]})

    assert found is not None
    assert (found.name, found.error) == ("GET", "503")


def test_a_request_that_fails_by_itself_has_no_failing_call() -> None:
    assert failing_call({REQUEST: [ROOT, span(1, None, "fine", fails=False)]}) is None
    assert failing_call({REQUEST: []}) is None


def test_it_is_what_most_of_them_have() -> None:
    others = {f"{place:016x}": [span(2, place, "search")] for place in (50, 51)}
    other = {"0000000000000060": [span(3, 96, "rank")]}

    found = failing_call({**others, **other})
    assert found is not None
    assert (found.name, round(found.share_ratio, 2)) == ("search", 0.67)


def test_an_exception_names_its_type_and_never_its_text() -> None:
    event = Event(
        time_ns=START_NS,
        name=semconv.EXCEPTION_EVENT,
        attributes={semconv.EXCEPTION_TYPE: "KeyError", semconv.EXCEPTION_MESSAGE: "secret"},
    )

    found = failing_call({REQUEST: [replace(span(1, None, "get"), events=(event,))]})
    assert found is not None
    assert found.error == "KeyError"


def test_spans_that_hold_each_other_end_the_search() -> None:
    assert failing_call({REQUEST: [span(1, 2, "a"), span(2, 1, "b")]}) is None


def test_a_name_is_fit_for_a_message() -> None:
    found = failing_call({REQUEST: [span(1, None, "GET \x1b[31m" + "x" * 500)]})

    assert found is not None
    assert found.name.isprintable()
    assert len(found.name) == 100
