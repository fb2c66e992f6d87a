"""Questions name a cohort by labels, status, tokens, attributes and time."""

import pytest

from latencytrace.errors import QuestionError
from latencytrace.model import DurationRange, RequestStatus, TokenRange
from latencytrace.model.cohorts.breakdown import ATTRIBUTE_CHARACTERS
from latencytrace.service.cohort import (
    Cohort,
    CohortQuery,
    Filters,
    attributes_of,
    instant_ns,
    period_ns,
    status_of,
    token_range,
)

NOW_NS = 1_763_690_000_000_000_000
MINUTE_NS = 60 * 10**9


def test_a_status_is_known_by_its_name() -> None:
    assert status_of("timeout") is RequestStatus.TIMEOUT


def test_failed_stands_for_every_status_but_ok() -> None:
    assert CohortQuery.model_validate({"status": "failed"}).cohort(NOW_NS).status == "failed"


def test_an_unknown_status_is_answered_with_those_there_are() -> None:
    with pytest.raises(QuestionError, match="'fine' is not known: use ok, error, timeout"):
        status_of("fine")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000..4000", TokenRange(at_least=1000, at_most=4000)),
        ("1000..", TokenRange(at_least=1000)),
        (" ..0 ", TokenRange(at_most=0)),
        ("512", TokenRange(at_least=512, at_most=512)),
    ],
)
def test_a_range_of_tokens_has_both_its_ends_in_it(text: str, expected: TokenRange) -> None:
    assert token_range(text) == expected


@pytest.mark.parametrize("text", ["", "..", "-5", "1-2", "1.5..2", "a..b", "9" * 40, "1..2..3"])
def test_what_is_no_range_is_a_question_not_understood(text: str) -> None:
    with pytest.raises(QuestionError, match=r"Try 1000\.\.4000"):
        token_range(text)


def test_a_range_that_holds_no_number_says_so() -> None:
    with pytest.raises(QuestionError, match="write the smaller one first"):
        token_range("4000..1000")


def test_conditions_are_keys_and_values() -> None:
    assert attributes_of("tenant=acme&query=a=b%26c%25&empty=") == (
        ("tenant", "acme"),
        ("query", "a=b&c%"),
        ("empty", ""),
    )


def test_a_long_value_is_asked_for_as_it_is_kept() -> None:
    ((_, value),) = attributes_of("long=" + 1000 * "x")

    assert value == ATTRIBUTE_CHARACTERS * "x"


@pytest.mark.parametrize("text", ["tenant", "=acme", "a=1&", "&".join(["a=1"] * 17)])
def test_what_is_no_condition_is_a_question_not_understood(text: str) -> None:
    with pytest.raises(QuestionError, match="condition"):
        attributes_of(text)


def test_an_attribute_that_is_not_kept_is_no_empty_answer() -> None:
    with pytest.raises(QuestionError, match=r"'url\.path' is not kept"):
        attributes_of("url.path=/chat")


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("15m", NOW_NS - 15 * MINUTE_NS),
        ("2h", NOW_NS - 120 * MINUTE_NS),
        ("1d", NOW_NS - 1440 * MINUTE_NS),
        ("0.5s", NOW_NS - 500_000_000),
        ("999999d", 0),
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T01:00:00.5+01:00", 500_000_000),
        ("1970-01-01T01:00:00 01:00", 0),
        ("0001-01-01T00:00:00Z", 0),
        ("9999-12-31T23:59:59Z", 2**63 - 1),
    ],
)
def test_a_time_is_an_instant_or_a_duration_back(text: str, expected_ns: int) -> None:
    assert instant_ns(text, NOW_NS) == expected_ns


@pytest.mark.parametrize(
    "text", ["", "m", "15", "-5m", "yesterday", "2026-01-31T15:04:05", "9" * 400 + "d"]
)
def test_what_is_no_time_is_a_question_not_understood(text: str) -> None:
    with pytest.raises(QuestionError, match="not a valid time"):
        instant_ns(text, NOW_NS)


def test_the_time_is_the_last_hour_unless_another_is_named() -> None:
    assert period_ns(None, None, NOW_NS) == (NOW_NS - 60 * MINUTE_NS, None)
    assert period_ns("2h", "90m", NOW_NS) == (NOW_NS - 120 * MINUTE_NS, NOW_NS - 90 * MINUTE_NS)


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        ("5m", "10m", "between since '5m' and until '10m'.* as since '10m' until '5m'"),
        ("5m", "5m", "name the earlier one as since; durations"),
        (None, "2h", "until '2h' lies before since, .* name an earlier since"),
        ("2025-11-21T02:00:00Z", "2025-11-21T01:00:00Z", "as since '2025-11-21T01:00:00Z' until"),
    ],
    ids=["turned round", "an instant", "before the last hour", "dates"],
)
def test_an_empty_time_is_refused_with_what_may_be_meant(
    since: str | None, until: str, message: str
) -> None:
    with pytest.raises(QuestionError, match=message):
        period_ns(since, until, NOW_NS)


def test_without_since_the_last_hour_is_meant() -> None:
    cohort = CohortQuery(service="rag").cohort(NOW_NS)

    assert cohort == Cohort(service="rag", since_ns=NOW_NS - 60 * MINUTE_NS)


def test_a_cohort_is_named_by_status_tokens_and_attributes_too() -> None:
    asked = {
        "status": "error",
        "input_tokens": "9..",
        "output_tokens": "..5",
        "where": "tenant=acme",
    }

    assert CohortQuery.model_validate(asked).cohort(NOW_NS) == Cohort(
        status=RequestStatus.ERROR,
        input_tokens=TokenRange(at_least=9),
        output_tokens=TokenRange(at_most=5),
        where=(("tenant", "acme"),),
        since_ns=NOW_NS - 60 * MINUTE_NS,
    )


def test_conditions_may_be_joined_or_repeated() -> None:
    asked = CohortQuery.model_validate({"where": ["tenant=acme&tier=gold", "zone=a"]})

    assert asked.where == (("tenant", "acme"), ("tier", "gold"), ("zone", "a"))


def test_a_label_is_left_out_by_the_whole_of_it_and_an_attribute_by_what_is_kept() -> None:
    asked = CohortQuery.model_validate({"without": [f"route={'r' * 200}&tenant={'t' * 200}"]})

    assert asked.without == (("route", "r" * 200), ("tenant", "t" * 128))


@pytest.mark.parametrize("name", CohortQuery.model_fields)
@pytest.mark.parametrize("empty", ["", ["", "a=b"]])
def test_an_empty_parameter_is_refused(name: str, empty: str | list[str]) -> None:
    with pytest.raises(QuestionError, match=f"^{name} is empty: "):
        CohortQuery.model_validate({name: empty})


def test_a_filter_that_cannot_be_read_is_a_question_not_understood() -> None:
    with pytest.raises(QuestionError, match="'fine' is not known: use ok, error, timeout"):
        CohortQuery.model_validate({"status": "fine"})


def test_a_filter_of_a_column_is_compared_once_it_is_asked_for() -> None:
    asked = Cohort(route="POST /chat", output_tokens=TokenRange(at_most=5), since_ns=1)

    assert list(asked.compared()) == [
        ("Route", "POST /chat"),
        ("OutputTokens", TokenRange(at_most=5)),
    ]


def test_every_filter_is_explained() -> None:
    assert all(field.description for field in CohortQuery.model_fields.values())
    assert Filters.model_fields.keys() < CohortQuery.model_fields.keys()


@pytest.mark.parametrize(
    ("text", "at_least_ns", "at_most_ns"),
    [
        ("250ms..2s", 250_000_000, 2_000_000_000),
        ("1.5s..", 1_500_000_000, None),
        ("..80us", None, 80_000),
        ("17ns..17ns", 17, 17),
        (" 1m .. 1h ", 60_000_000_000, 3_600_000_000_000),
    ],
)
def test_durations_are_named_with_their_units(
    text: str, at_least_ns: int | None, at_most_ns: int | None
) -> None:
    asked = CohortQuery.model_validate({"duration": text})

    assert asked.duration == DurationRange(at_least_ns=at_least_ns, at_most_ns=at_most_ns)


@pytest.mark.parametrize("text", ["2", "..", "2s", "1s..2", "2s..1s", "1s..2s..3s", "x", "-1s.."])
def test_what_is_no_range_of_durations_is_refused(text: str) -> None:
    with pytest.raises(QuestionError, match="duration"):
        CohortQuery.model_validate({"duration": text})
