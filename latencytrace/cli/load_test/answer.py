"""Bodies of answers: server-sent events, when their tokens came, and how many."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, cast

MOST_EVENT_BYTES = 8 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventTooLongError(ValueError):
    """One event is longer than any model sends."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event; its data are never empty."""

    name: bytes
    data: bytes


class EventStream:
    """Reads one stream from its beginning.

    Source: the HTML standard, section 9.2, "Server-sent events". Unlike a browser we
    also take a last event that no empty line ends: servers forget it.
    """

    def __init__(self) -> None:
        self._rest = b""  # of a line without its end yet
        self._skip_line_feed = False  # the bytes so far ended between CR and LF
        self._begun = False
        self._name = b""
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, received: bytes) -> list[Event]:
        """The events that these bytes complete.

        Raises:
            EventTooLongError: An event goes past `MOST_EVENT_BYTES`.
        """
        if not received:  # it may lie between a CR and its LF
            return []
        if self._skip_line_feed:
            received = received.removeprefix(b"\n")
        received = self._without_mark(self._rest + received)
        lines = received.splitlines(keepends=True)  # of bytes: at CR, LF and CRLF only
        self._rest = b"" if not lines or lines[-1].endswith((b"\n", b"\r")) else lines.pop()
        self._skip_line_feed = received.endswith(b"\r")
        if self._data_bytes + len(self._rest) > MOST_EVENT_BYTES:
            raise EventTooLongError(f"an event of more than {MOST_EVENT_BYTES:,} bytes")
        events = []
        for line in lines:
            event = self._line(line.rstrip(b"\r\n"))
            if event is not None:
                events.append(event)
        return events

    def end(self) -> list[Event]:
        """Return what the stream's end completes."""
        last = (self._line(self._rest), self._line(b""))
        self._rest = b""
        return [event for event in last if event is not None]

    def _without_mark(self, received: bytes) -> bytes:
        undecided = len(received) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(received)
        if self._begun or undecided:
            return received
        self._begun = True
        return received.removeprefix(BYTE_ORDER_MARK)

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatched()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
        elif field == b"event":
            self._name = value
        return None

    def _dispatched(self) -> Event | None:
        data, name = b"\n".join(self._data), self._name
        self._data, self._data_bytes, self._name = [], 0, b""
        return Event(name, data) if data else None


MOST_KEPT_BYTES = 1024 * 1024  # of an answer in one piece, to look for its usage
DONE = b"[DONE]"
CONTENT_KEYS = ("content", "reasoning_content", "reasoning", "tool_calls")


class Shape(StrEnum):
    """The way in which an answer's tokens are separated."""

    OPENAI = "openai"  # events with choices, as OpenAI's API streams them
    EVENTS = "events"  # other server-sent events
    CHUNKS = "chunks"  # any other body of unknown length, sent in chunks
    WHOLE = "whole"  # one piece: no time of any token is known


# The formulas, as they are printed; `due` is when a request was due.
FIRST_TOKEN = {
    Shape.OPENAI: "first event whose choices[] have delta.content (reasoning, tool calls) or text",
    Shape.EVENTS: "first event with data",
    Shape.CHUNKS: "first chunk of the body",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The tokens of one answer; None: unknown."""

    shape: Shape
    token_times_ns: Sequence[int]  # when each event or chunk with content was received
    reported_tokens: int | None  # what the answer's `usage` says
    error: str | None  # reported inside an answer that began with success

    @property
    def tokens(self) -> int | None:
        """As the answer counts them itself, else its events or chunks with content."""
        if self.reported_tokens is not None:
            return self.reported_tokens
        return len(self.token_times_ns) or None


class Reader(Protocol):
    """Reads the body of one answer as it comes."""

    def feed(self, received: bytes, at_ns: int, *, chunk_ended: bool) -> None:
        """Take bytes; they may be cut anywhere."""
        ...

    def answer(self, at_ns: int) -> Answer:
        """Return what was read, now that the body has ended."""
        ...


def reader(content_type: str, *, length_known: bool) -> Reader:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return EventsReader()
    if length_known or kind == "application/json":
        return WholeReader()
    return ChunksReader()


class EventsReader:
    """Reads server-sent events, OpenAI's and others."""

    def __init__(self) -> None:
        self._stream = EventStream()
        self._shape = Shape.EVENTS
        self._times_ns: list[int] = []
        self._tokens: int | None = None
        self._error: str | None = None

    def feed(self, received: bytes, at_ns: int, *, chunk_ended: bool) -> None:
        try:
            events = self._stream.feed(received)
        except EventTooLongError:
            self._error = "endless event"
            self._stream = EventStream()
            return
        for event in events:
            self._take(event, at_ns)

    def answer(self, at_ns: int) -> Answer:
        for event in self._stream.end():
            self._take(event, at_ns)
        return Answer(
            shape=self._shape,
            token_times_ns=self._times_ns,
            reported_tokens=self._tokens,
            error=self._error,
        )

    def _take(self, event: Event, at_ns: int) -> None:
        if event.data == DONE:
            return
        document = _json_object(event.data)
        if event.name == b"error" or document.get("error"):
            self._error = "error in the stream"
            return
        choices = document.get("choices")
        if isinstance(choices, list):
            self._shape = Shape.OPENAI
            self._tokens = output_tokens(document) or self._tokens
            if not any(_has_content(choice) for choice in choices):
                return
        self._times_ns.append(at_ns)


class ChunksReader:
    """Reads a plain stream: each chunk that the server sent is a token."""

    def __init__(self) -> None:
        self._times_ns: list[int] = []
        self._open = False

    def feed(self, received: bytes, at_ns: int, *, chunk_ended: bool) -> None:
        if received and not self._open:
            self._times_ns.append(at_ns)
            self._open = True
        if chunk_ended:
            self._open = False

    def answer(self, at_ns: int) -> Answer:
        return Answer(
            shape=Shape.CHUNKS, token_times_ns=self._times_ns, reported_tokens=None, error=None
        )


class WholeReader:
    """Reads an answer in one piece, for the tokens that it reports."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, received: bytes, at_ns: int, *, chunk_ended: bool) -> None:
        if len(self._kept) <= MOST_KEPT_BYTES:
            self._kept += received

    def answer(self, at_ns: int) -> Answer:
        complete = len(self._kept) <= MOST_KEPT_BYTES
        return Answer(
            shape=Shape.WHOLE,
            token_times_ns=(),
            reported_tokens=output_tokens(_json_object(bytes(self._kept))) if complete else None,
            error=None,
        )


def output_tokens(document: dict[str, object]) -> int | None:
    """The output tokens that an OpenAI-style document reports; None where it reports none."""
    usage = document.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else None


def _has_content(choice: object) -> bool:
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta")
    in_delta = isinstance(delta, dict) and any(delta.get(key) for key in CONTENT_KEYS)
    return in_delta or bool(choice.get("text"))


def _json_object(text: bytes) -> dict[str, object]:
    """The JSON object in a text; empty where it is something else."""
    if not text.lstrip().startswith(b"{"):
        return {}
    try:
        return cast("dict[str, object]", json.loads(text))
    except (ValueError, RecursionError):
        return {}
