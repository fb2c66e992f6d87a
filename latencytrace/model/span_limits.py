"""How much of one span is kept."""

from dataclasses import dataclass

UNLIMITED = 1 << 62
_DEFAULT_COUNT = 128  # OpenTelemetry's


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanLimits:
    """OpenTelemetry's limits: of what exceeds a count, the oldest is left out and counted."""

    attributes: int = _DEFAULT_COUNT
    events: int = _DEFAULT_COUNT
    links: int = _DEFAULT_COUNT
    event_attributes: int = _DEFAULT_COUNT
    link_attributes: int = _DEFAULT_COUNT
    length: int = UNLIMITED  # of each text among the span's attributes
    other_length: int = UNLIMITED  # among those of events and links
