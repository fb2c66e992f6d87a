"""Reads how a question names a cohort's status, tokens and attributes."""

import re
from urllib.parse import unquote

from latencytrace.analysis.cohort_attributes import LEFT_OUT
from latencytrace.errors import QuestionError
from latencytrace.model import RequestStatus, TokenRange
from latencytrace.model.cohort import attribute_text

MOST_CONDITIONS = 16
_RANGE = re.compile(r"(\d{0,18})\.\.(\d{0,18})")
_EXACTLY = re.compile(r"\d{1,18}")


def status_of(text: str) -> RequestStatus:
    """The status of this name.

    Raises:
        QuestionError: None has it; the message names those there are.
    """
    if text not in set(RequestStatus):
        raise QuestionError(f"status {text!r} is not known: use {', '.join(RequestStatus)}")
    return RequestStatus(text)


def token_range(text: str) -> TokenRange:
    """`1000..4000`, `1000..`, `..4000` or `512`: both ends included.

    Raises:
        QuestionError: The text is none of these, or no number lies between its ends.
    """
    if _EXACTLY.fullmatch(text.strip()):
        return TokenRange(at_least=int(text), at_most=int(text))
    ends = _RANGE.fullmatch(text.strip())
    if ends is None or not any(ends.groups()):
        raise QuestionError(
            f"{text!r} is no range of tokens: write 1000..4000, 1000.., ..4000 or 512"
        )
    at_least, at_most = (int(end) if end else None for end in ends.groups())
    if at_least is not None and at_most is not None and at_least > at_most:
        raise QuestionError(f"{text!r} holds no number of tokens: write the smaller one first")
    return TokenRange(at_least=at_least, at_most=at_most)


def attributes_of(text: str) -> tuple[tuple[str, str], ...]:
    """Keys and values of `tenant=acme&tier=gold`; `%26` stands for an `&`, `%25` for a `%`.

    Raises:
        QuestionError: A condition is none or asks for what is not kept, or there are too many.
    """
    conditions = text.split("&")
    if len(conditions) > MOST_CONDITIONS:
        raise QuestionError(f"{len(conditions)} conditions are more than {MOST_CONDITIONS}")
    found = []
    for condition in conditions:
        key, separator, value = condition.partition("=")
        if not (key and separator):
            raise QuestionError(
                f"{condition!r} is no condition: write KEY=VALUE, as where=tenant=acme"
            )
        if unquote(key) in LEFT_OUT:
            raise QuestionError(
                f"{unquote(key)!r} is not kept as an attribute: ask by route, status or tokens"
            )
        found.append((unquote(key), attribute_text(unquote(value))))
    return tuple(found)
