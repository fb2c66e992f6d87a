"""What few spans have, made when it is asked for."""

from opentelemetry.trace import SpanContext, StatusCode, TraceState

from latencytrace.model.span import AttributeValue


class Extra:
    """What few spans have: events, links, a status, a parent in another process."""

    __slots__ = (
        "description",
        "dropped_attributes",
        "dropped_events",
        "dropped_links",
        "events",
        "links",
        "random_id",
        "remote_parent",
        "status",
        "trace_state",
    )

    def __init__(self) -> None:
        self.events: list[tuple[str, int, dict[str, AttributeValue]]] = []
        self.links: list[tuple[SpanContext, dict[str, AttributeValue]]] = []
        self.status = StatusCode.UNSET
        self.description: str | None = None
        self.trace_state: TraceState | None = None
        self.remote_parent = False
        self.random_id = True  # whether the trace's id is said to be random
        self.dropped_attributes = self.dropped_events = self.dropped_links = 0
