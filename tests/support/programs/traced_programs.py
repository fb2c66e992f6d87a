"""Programs that trace themselves through OpenTelemetry's interface, in every way it has.

Each takes a tracer and returns what it could see of its spans beyond what is sent.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from ipaddress import ip_address
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from opentelemetry.baggage import get_baggage, set_baggage
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    get_current_span,
    set_span_in_context,
    use_span,
)

Program = Callable[[Tracer], object]
STATE = TraceState([("vendor", "value")])
MANY = 140


def parent(trace_id: int, *, flags: int, remote: bool = True, state: bool = True) -> Context:
    """The context below a span of somebody else's."""
    span_context = SpanContext(
        trace_id,
        0x00F067AA0BA902B7,
        is_remote=remote,
        trace_flags=TraceFlags(flags),
        trace_state=STATE if state else TraceState(),
    )
    return set_span_in_context(NonRecordingSpan(span_context), Context())


REMOTE = get_current_span(parent(0x0AF7651916CD43DD8448EB211C80319C, flags=1)).get_span_context()
LOCAL = SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
NOBODY = SpanContext(0, 0, is_remote=False)


class Colour(StrEnum):
    """Text of a type of its own."""

    RED = "red"


def seen(span: Span) -> object:
    """What children and other services are told of a span."""
    context = span.get_span_context()
    return int(context.trace_flags), context.trace_state.to_header(), span.is_recording()


def kinds(tracer: Tracer) -> object:
    """One span of each kind."""
    for kind in SpanKind:
        tracer.start_span(kind.name, kind=kind).end()
    return None


def times(tracer: Tracer) -> object:
    """Times of the program's own, out of order too."""
    tracer.start_span("now", start_time=1_700_000_000_000_000_001).end(1_700_000_000_123_456_789)
    tracer.start_span("epoch", start_time=0).end(0)
    tracer.start_span("back", start_time=1_700_000_000_000_000_009).end(1_700_000_000_000_000_001)
    return None


def attributes(tracer: Tracer) -> object:
    """Attributes of every type, set in every way."""
    span = tracer.start_span("name", attributes={"a": 1, "b": "two", "c": True, "d": 0.5})
    span.set_attribute("e", ("x", "y"))
    span.set_attributes({"f": [1, 2], "a": 2, "g": b"bytes"})
    span.set_attribute("nested", {"list": [1, [2.5, "three"]], "mapping": {"deep": True}})
    span.set_attribute("mixed", [1, "two", 3.0, None, b"4"])
    span.set_attribute("enum", Colour.RED)
    span.set_attributes({"empty text": "", "empty list": [], "empty mapping": {}})
    span.set_attributes({"nan": float("nan"), "inf": float("-inf"), "zero": -0.0})
    span.set_attributes({"large": 2**63 - 1, "small": -(2**63), "": "no key"})
    span.set_attributes({"text": "ä 語 🙂 \x00", "long": "x" * 5_000})
    span.end()
    span.set_attribute("late", 1)
    span.set_attributes({"late": 2, "a": 3})
    return None


class Name(str, Enum):  # noqa: UP042 - what older programs write
    """Text of a type of its own, whose `str` is another one."""

    CHAT = "chat"


class Size(Enum):
    """What stands for nothing but itself."""

    SMALL = 1


def texts_of_other_types(tracer: Tracer) -> object:
    """Names and keys that are members of an enumeration."""
    link = Link(REMOTE, {Name.CHAT: 1})
    span = tracer.start_span(Name.CHAT, attributes={Name.CHAT: 1}, links=[link])
    span.set_attribute(Name.CHAT, 2)
    span.set_attribute("value", Name.CHAT)
    span.add_event(Name.CHAT, {Name.CHAT: 3})
    span.set_status(StatusCode.ERROR, Name.CHAT)
    span.end()
    return None


def values_of_other_types(tracer: Tracer) -> object:
    """Values that the SDK sends as their text, and such as are arrays to it."""
    values: dict[str, Any] = {
        "identifier": UUID(int=7),
        "time": datetime(2025, 11, 21, 17, 0, tzinfo=UTC),
        "length": timedelta(seconds=3),
        "decimal": Decimal("1.50"),
        "path": PurePosixPath("/models/llama"),
        "member": Size.SMALL,
        "address": ip_address("127.0.0.1"),
        "range": range(3),
        "deque": deque([1, "two"]),
        "bytearray": bytearray(b"ab"),
    }
    span = tracer.start_span("name", attributes=values)
    span.set_attribute("list", [*values.values()])
    span.end()
    return None


def set_again(tracer: Tracer) -> object:
    """Attributes that are set again, which makes them the newest."""
    span = tracer.start_span("one by one", attributes={"a": 1, "b": 1, "c": 1})
    span.set_attribute("a", 2)
    span.set_attribute("d", 1)
    span.end()
    span = tracer.start_span("at once", attributes={"a": 1, "b": 1, "c": 1})
    span.set_attributes({"a": 2, "b": [2]})
    span.set_attributes({"d": 1})
    span.end()
    return None


def many_attributes(tracer: Tracer) -> object:
    """More attributes than are kept, one by one and all at once."""
    span = tracer.start_span("one by one", attributes={"first": 1})
    for number in range(MANY):
        span.set_attribute(f"key {number}", number)
    span.end()
    tracer.start_span("at the start", attributes={str(n): n for n in range(MANY)}).end()
    span = tracer.start_span("at once")
    span.set_attributes({str(n): [n] for n in range(MANY)})
    span.end()
    return None


def many_events_and_links(tracer: Tracer) -> object:
    """More events and links than are kept, each with more attributes than are kept."""
    few: dict[str, str | int] = {"a": "x" * 300, "b": 1}
    many: dict[str, int] = {f"key {number}": number for number in range(MANY)}
    links = [Link(SpanContext(n, n, is_remote=True), few) for n in range(1, MANY)]
    span = tracer.start_span("name", links=links)
    for number in range(MANY):
        span.add_event(f"event {number}", few, number)
    span.add_event("the last", many, 1)
    span.add_link(SpanContext(7, 1_000, is_remote=False), many)
    span.end()
    return None


def children(tracer: Tracer) -> object:
    """Spans within spans, current and not."""
    with tracer.start_as_current_span("outer") as outer, tracer.start_as_current_span("inner"):
        tracer.start_span("leaf").end()
        tracer.start_span("by hand", context=set_span_in_context(outer)).end()
        tracer.start_span("root within", context=Context()).end()
    with use_span(tracer.start_span("used"), end_on_exit=True) as used:
        tracer.start_span("below used").end()
    return seen(outer), seen(used), seen(get_current_span())


def remote_parents(tracer: Tracer) -> object:
    """Below parents of other services: sampled or not, with random ids or not."""
    told = []
    for flags in range(4):
        for state in (True, False):
            context = parent(1000 + flags, flags=flags, state=state)
            with tracer.start_as_current_span(f"served {flags}", context=context) as served:
                below = tracer.start_span(f"below {flags}")
                below.end()
            told += [seen(served), seen(below)]
    local = parent(77, flags=1, remote=False)
    tracer.start_span("below a local one", context=local).end()
    return told


def many_traces(tracer: Tracer) -> object:
    """Requests of many traces, of which a sampler takes some."""
    told = []
    for number in range(16):
        for flags in (2, 3):
            trace_id = (number << 60) | (number << 20) | 1
            with tracer.start_as_current_span(
                f"served {number} {flags}",
                context=parent(trace_id, flags=flags),
                attributes={"a": 1},
            ) as served:
                tracer.start_span(f"below {number} {flags}").end()
            told.append(seen(served))
    return told


def links_and_events(tracer: Tracer) -> object:
    """Links and events, also such as say little."""
    span = tracer.start_span("name", links=[Link(REMOTE, {"a": 1}), Link(LOCAL)])
    span.add_link(REMOTE, {"b": "two"})
    span.add_link(NOBODY)
    span.add_link(NOBODY, {"said": "by attributes alone"})
    span.add_event("plain", timestamp=5)
    span.add_event("told", {"c": [1.5], "d": {"e": 1}}, timestamp=6)
    span.add_event("empty", {}, timestamp=0)
    span.end()
    span.add_event("late")
    span.add_link(LOCAL)
    return None


def links_to_nothing(tracer: Tracer) -> object:
    """Links that lead nowhere, some of them none at all."""
    none: Any = None
    tracer.start_span("name", links=[none, Link(NOBODY), Link(REMOTE, {"a": 1})]).end()
    with tracer.start_as_current_span("current", links=(none,)):
        pass
    return None


def contexts(tracer: Tracer) -> object:
    """What is current within a span beside it: what was, whatever its parent's context holds."""
    token = attach(set_baggage("by", "caller"))
    try:
        with tracer.start_as_current_span("root", context=Context()):
            beside_root = get_baggage("by")
        with tracer.start_as_current_span("told", context=set_baggage("by", "parent")):
            beside_told = get_baggage("by")
    finally:
        detach(token)
    return beside_root, beside_told


def statuses(tracer: Tracer) -> object:
    """Every way to say how it went."""
    described: list[tuple[Any, ...]] = [
        (StatusCode.OK,),
        (StatusCode.OK, "not kept"),
        (StatusCode.ERROR, "why"),
        (StatusCode.ERROR,),
        (Status(StatusCode.ERROR, "why"),),
        (Status(StatusCode.OK),),
        (Status(StatusCode.UNSET),),
        (StatusCode.UNSET,),
    ]
    for number, arguments in enumerate(described):
        span = tracer.start_span(str(number))
        span.set_status(*arguments)
        span.end()
        span.set_status(StatusCode.ERROR, "late")
    span = tracer.start_span("final")
    for final in (Status(StatusCode.ERROR, "first"), Status(StatusCode.OK)):
        span.set_status(final)
    span.set_status(StatusCode.ERROR, "last")
    span.end()
    return None


def renamed(tracer: Tracer) -> object:
    """A span that is named anew, and ended twice."""
    span = tracer.start_span("before", start_time=1)
    span.update_name("after")
    span.end(2)
    span.update_name("late")
    span.end(3)
    return None


class OwnError(LookupError):
    """An exception of the program's own."""


ERRORS: Iterable[BaseException] = (OwnError("why"), OwnError(), KeyboardInterrupt("stop"))


def raised(tracer: Tracer) -> object:
    """Blocks that raise, with every setting of what is noted then."""
    for error in ERRORS:
        for record in (True, False):
            for mark in (True, False):
                with (
                    suppress(LookupError, KeyboardInterrupt),
                    tracer.start_as_current_span(
                        "current", record_exception=record, set_status_on_exception=mark
                    ),
                ):
                    raise error
                with (
                    suppress(LookupError, KeyboardInterrupt),
                    tracer.start_span(
                        "not current", record_exception=record, set_status_on_exception=mark
                    ),
                ):
                    raise error
    return None


def exceptions(tracer: Tracer) -> object:
    """Exceptions that are noted by hand."""
    span = tracer.start_span("name")
    span.record_exception(OwnError("why"), timestamp=5)
    span.record_exception(ValueError("ä"), {"more": 1, "exception.message": "said"}, timestamp=6)
    span.record_exception(SystemExit(3), timestamp=7, escaped=True)
    outer = OwnError("outer")
    outer.__cause__ = ValueError("inner")
    span.record_exception(outer)
    span.end()
    return None


def decorated(tracer: Tracer) -> object:
    """A function that is traced each time it is called."""

    @tracer.start_as_current_span("decorated", attributes={"a": 1}, kind=SpanKind.SERVER)
    def function(number: int) -> int:
        tracer.start_span(f"below {number}").end()
        return number

    return [function(1), function(2), function.__name__]


def decorated_in_every_way(tracer: Tracer) -> object:
    """Functions that are traced with each setting, within a request that is not sampled too."""

    @tracer.start_as_current_span("silent", record_exception=False, set_status_on_exception=False)
    def silent() -> None:
        raise OwnError

    @tracer.start_as_current_span("linked", links=[Link(REMOTE)], context=Context())
    def linked() -> bool:
        return get_current_span().is_recording()

    @tracer.start_as_current_span("left open", end_on_exit=False)
    def left_open() -> Span:
        return get_current_span()

    told = []
    for flags in (1, 0):
        with tracer.start_as_current_span("served", context=parent(1234, flags=flags)):

            @tracer.start_as_current_span("inner")
            def inner() -> bool:
                return get_current_span().is_recording()

            with suppress(OwnError):
                silent()
            told += [linked(), inner(), seen(left_open())]
        told.append(inner())
    return told


def looked_at(tracer: Tracer) -> object:
    """A span as code written for the SDK's reads it, under way and over."""
    links = [Link(REMOTE, {"l": 1})]
    span: Any = tracer.start_span("before", parent(99, flags=1), SpanKind.SERVER, links=links)
    if not span.is_recording():
        return None
    told = [_read(span)]
    span.set_attributes({"a": [1, "two"], "b": {"c": 2.5}})
    span.add_event("event", {"e": True}, timestamp=5)
    span.set_status(StatusCode.ERROR, "why")
    span.update_name("after")
    told.append(_read(span))
    span.end(1_700_000_000_123_456_789)
    told.append(_read(span))
    return told


def _read(span: Any) -> object:
    written = json.loads(span.to_json())
    for differs in ("context", "resource", "start_time"):
        del written[differs]
    scope = span.instrumentation_scope
    return (
        json.dumps(written, sort_keys=True),
        [(event.name, event.timestamp, dict(event.attributes)) for event in span.events],
        [(link.context, dict(link.attributes)) for link in span.links],
        (scope.name, scope.version, scope.schema_url, dict(scope.attributes)),
        (span.dropped_attributes, span.dropped_events, span.dropped_links),
        (dict(span.attributes), span._parent, span._end_time, span._name),
        (span._attributes.get("b"), span._start_time == span.start_time),
        (span.parent, span.end_time, span.kind, span.status.status_code, span.status.description),
        span.context == span.get_span_context(),
        span.resource.attributes["service.name"],
        repr(span).partition("(")[2].partition(",")[0],
    )


def left_open(tracer: Tracer) -> object:
    """Spans that are not ended where their block is, or not at all."""
    with tracer.start_as_current_span("open", end_on_exit=False) as span:
        span.set_attribute("a", 1)
    recording = span.is_recording()
    span.end()
    return recording, tracer.start_span("never ended").is_recording()


PROGRAMS: tuple[Program, ...] = (
    kinds,
    times,
    attributes,
    texts_of_other_types,
    set_again,
    many_attributes,
    many_events_and_links,
    children,
    remote_parents,
    many_traces,
    links_and_events,
    links_to_nothing,
    contexts,
    statuses,
    renamed,
    raised,
    exceptions,
    decorated,
    decorated_in_every_way,
    looked_at,
    left_open,
)
