"""Requests counted together."""

from dataclasses import dataclass

from latencytrace.model.request import RequestStatus
from latencytrace.model.span import AttributeValue

ATTRIBUTE_CHARACTERS = 128  # of an attribute's text, that are kept and compared


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRange:
    """So many tokens; None: without bound."""

    at_least: int | None = None
    at_most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The requests with these labels that started within this time; None: any."""

    service: str | None = None  # None: outermost requests only
    route: str | None = None
    model: str | None = None
    version: str | None = None
    instance: str | None = None
    status: RequestStatus | None = None
    input_tokens: TokenRange | None = None  # of requests whose tokens are known
    output_tokens: TokenRange | None = None
    attributes: tuple[tuple[str, str], ...] = ()  # all of them, each on any span
    since_ns: int | None = None  # since the Unix epoch, inclusive
    until_ns: int | None = None  # exclusive


def attribute_text(value: AttributeValue) -> str:
    """How an attribute is kept and asked for: as JSON spells it, the first characters."""
    if isinstance(value, str):
        return value[:ATTRIBUTE_CHARACTERS]
    text = str(value)[:ATTRIBUTE_CHARACTERS]
    return text.lower() if isinstance(value, bool) else text
