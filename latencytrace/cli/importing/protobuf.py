"""Reads long files of OTLP's protobuf piece by piece."""

from collections.abc import Iterator
from typing import Final

from latencytrace.cli.importing.chunks import CHUNK_BYTES, Place, Record, Unread
from latencytrace.errors import OtlpError
from latencytrace.model.varints import number_at
from latencytrace.service.otlp.mending.account import Mending
from latencytrace.service.otlp.messages import message_of
from latencytrace.service.otlp.traces import MAX_BYTES

TAG: Final = 0x0A  # of field 1, `resource_spans`, the only one of a trace request
PREFIX_BYTES: Final = 4  # the Collector's file exporter writes each message's length before it
_VARINT_BYTES: Final = 10


class ProtobufReader:
    """Reads a field or a message at a time; a broken one does not touch the next.

    Args:
        chunks: Not compressed.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""
        self._at = 0
        self._before = 0  # bytes of the file before the buffer
        self._broken: str | None = None
        self._lost = False  # where the next piece begins is not known

    @property
    def _place(self) -> Place:
        return Place(byte=self._before + self._at)

    def fields(self) -> Iterator[Record | Unread]:
        """Each `resource_spans` of one message, or of several behind each other."""
        while self._has(1):
            place = self._place
            if self._buffer[self._at] != TAG:
                yield Unread(place=place, reason="not OTLP: another field than resource_spans")
                return
            self._has(1 + _VARINT_BYTES)
            try:
                length, at = number_at(self._buffer, self._at + 1)
            except IndexError:
                yield Unread(place=place, reason="not OTLP: a length is none")
                return
            yield from self._piece(place, 0, at - self._at + length)
            if self._lost:
                return
        yield from self._end()

    def prefixed(self) -> Iterator[Record | Unread]:
        """Each message, behind its length in four bytes."""
        while self._has(1):
            place = self._place
            self._has(PREFIX_BYTES)
            length = int.from_bytes(self._buffer[self._at : self._at + PREFIX_BYTES])
            yield from self._piece(place, PREFIX_BYTES, PREFIX_BYTES + length)
            if self._lost:
                return
        yield from self._end()

    def _piece(self, place: Place, start: int, size: int) -> Iterator[Record | Unread]:
        if size > MAX_BYTES:
            self._lost = True
            yield Unread(place=place, reason=f"a message of {size:,} bytes: more than can be")
            return
        self._lost = not self._has(size)
        body = self._buffer[self._at + start : self._at + size]
        self._at += size
        mending = Mending()
        try:
            message = message_of(body, mending)
        except OtlpError as error:
            if not self._lost:
                yield Unread(place=place, reason=f"not OTLP: {error}")
        else:
            if self._lost:
                mending.lost_spans = 0  # they are named below
            yield Record(place=place, message=message, mending=mending)
        if self._lost:
            reason = self._broken or f"it is cut off: {size:,} bytes announced"
            yield Unread(place=place, reason=reason)

    def _end(self) -> Iterator[Unread]:
        if self._broken is not None:
            yield Unread(place=self._place, reason=self._broken)

    def _has(self, size: int) -> bool:
        """Tell whether that many bytes are left; they are in the buffer then."""
        if len(self._buffer) - self._at >= size:
            return True
        parts = [self._buffer[self._at :]]
        read = len(parts[0])
        while read < max(size, CHUNK_BYTES) and self._broken is None:
            try:
                chunk = next(self._chunks, None)
            except OtlpError as error:
                self._broken = str(error)
                break
            if chunk is None:
                break
            parts.append(chunk)
            read += len(chunk)
        self._before += self._at
        self._buffer = b"".join(parts)
        self._at = 0
        return read >= size
