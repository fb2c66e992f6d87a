"""How a question names a cohort's status, tokens and attributes."""

import pytest

from latencytrace.errors import QuestionError
from latencytrace.model import RequestStatus, TokenRange
from latencytrace.model.cohort import ATTRIBUTE_CHARACTERS
from latencytrace.service.cohort_words import attributes_of, status_of, token_range


def test_a_status_is_known_by_its_name() -> None:
    assert status_of("timeout") is RequestStatus.TIMEOUT


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
    with pytest.raises(QuestionError, match=r"write 1000\.\.4000"):
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
