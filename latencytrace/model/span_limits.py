"""Limits on what is kept of one span."""

from collections.abc import Mapping
from typing import NamedTuple, Self

from latencytrace.errors import SettingsError

UNLIMITED = 1 << 62
_DEFAULT_COUNT = 128  # OpenTelemetry's


class SpanLimits(NamedTuple):
    """OpenTelemetry's limits: of what exceeds a count, the oldest is left out and counted."""

    attributes: int = _DEFAULT_COUNT
    events: int = _DEFAULT_COUNT
    links: int = _DEFAULT_COUNT
    event_attributes: int = _DEFAULT_COUNT
    link_attributes: int = _DEFAULT_COUNT
    length: int = UNLIMITED  # of each text among the span's attributes
    other_length: int = UNLIMITED  # among those of events and links

    @classmethod
    def parse(cls, environ: Mapping[str, str]) -> Self:
        """Read OpenTelemetry's variables: a kind's own one first, then that of all attributes.

        Raises:
            SettingsError: One is not a whole number.
        """
        attributes = _limit(environ, "OTEL_ATTRIBUTE_COUNT_LIMIT", _DEFAULT_COUNT)
        if attributes == UNLIMITED:  # only a kind's own variable lifts its limit, as in the SDK
            attributes = _DEFAULT_COUNT
        length = _limit(environ, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", UNLIMITED)
        return cls(
            attributes=_limit(environ, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", attributes),
            events=_limit(environ, "OTEL_SPAN_EVENT_COUNT_LIMIT", _DEFAULT_COUNT),
            links=_limit(environ, "OTEL_SPAN_LINK_COUNT_LIMIT", _DEFAULT_COUNT),
            event_attributes=_limit(environ, "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", attributes),
            link_attributes=_limit(environ, "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", attributes),
            length=_limit(environ, "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", length),
            other_length=length,
        )


def _limit(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "").strip()
    if name in environ and not text:
        return UNLIMITED  # as the SDK reads an empty one
    if not text:
        return default
    if not text.isdecimal():
        raise SettingsError(f"{name}={text!r} is not a whole number")
    return int(text)
