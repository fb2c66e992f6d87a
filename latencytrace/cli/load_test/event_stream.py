"""Server-sent events out of the bytes of a stream, however these were cut."""

from dataclasses import dataclass

MOST_EVENT_BYTES = 8 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventTooLongError(ValueError):
    """One event is longer than anybody would send on purpose."""


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
