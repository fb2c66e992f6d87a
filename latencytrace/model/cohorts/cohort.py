"""The values by which requests are counted together."""

from dataclasses import dataclass

from latencytrace.model.span import AttributeValue

ATTRIBUTE_CHARACTERS = 128  # of an attribute's text, that are kept and compared


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationRange:
    """So long; None: without bound."""

    at_least_ns: int | None = None
    at_most_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRange:
    """So many tokens; None: without bound."""

    at_least: int | None = None
    at_most: int | None = None


def attribute_text(value: AttributeValue) -> str:
    """Return how an attribute is kept and asked for: as JSON spells it, the first characters."""
    if isinstance(value, str):
        return value[:ATTRIBUTE_CHARACTERS]
    text = str(value)[:ATTRIBUTE_CHARACTERS]
    return text.lower() if isinstance(value, bool) else text
