"""The bytes of a file to import, decompressed piece by piece."""

import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.errors import OtlpError
from latencytrace.service.otlp.mending.account import Mending

STDIN: Final = "-"
CHUNK_BYTES: Final = 256 * 1024

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ANY_HEADER = zlib.MAX_WBITS | 16  # 16: with gzip's header


def opened(name: str) -> AbstractContextManager[BinaryIO]:
    """A file, or standard input for `-`.

    Raises:
        OtlpError: The file cannot be opened.
    """
    if name == STDIN:
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise OtlpError(f"cannot be read: {error.strerror}") from None


def plain_chunks(file: BinaryIO, on_read: Callable[[int], None]) -> Iterator[bytes]:
    """Read a file, decompressed if it is gzip, in pieces of bounded size.

    Args:
        file: Read to its end.
        on_read: Called with the number of bytes that were read from it.

    Raises:
        OtlpError: It breaks off here, after everything that could be read.
    """
    raw = _raw_chunks(file, on_read)
    first = next(raw, b"")
    if first.startswith(_GZIP):
        yield from _gunzipped(first, raw)
        return
    if _ZSTD in first[:8]:
        raise OtlpError(
            "it is compressed with zstd, which is not read: write it with gzip or none"
        )
    yield first
    yield from raw


def _raw_chunks(file: BinaryIO, on_read: Callable[[int], None]) -> Iterator[bytes]:
    try:
        while chunk := file.read(CHUNK_BYTES):
            on_read(len(chunk))
            yield chunk
    except OSError as error:
        raise OtlpError(f"cannot be read: {error.strerror}") from None


def _gunzipped(packed: bytes, raw: Iterator[bytes]) -> Iterator[bytes]:
    """Every member of a gzip file."""
    inflater = zlib.decompressobj(wbits=_ANY_HEADER)
    while packed:
        try:
            yield inflater.decompress(packed, CHUNK_BYTES)
        except zlib.error as error:
            raise OtlpError(f"the gzip is damaged: {error}") from None
        packed = inflater.unconsumed_tail
        if inflater.eof:
            packed = inflater.unused_data.lstrip(b"\0") or next(raw, b"").lstrip(b"\0")
            inflater = zlib.decompressobj(wbits=_ANY_HEADER)
            continue
        packed = packed or next(raw, b"")
        if not packed:
            raise OtlpError("the gzip ends too early")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a file."""

    line: int | None = None  # of a text, from 1
    byte: int | None = None  # of what is no text, from 0

    def __str__(self) -> str:
        return f"line {self.line}" if self.line is not None else f"byte {self.byte:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A piece of a file that could be read."""

    place: Place
    message: ExportTraceServiceRequest
    mending: Mending | None = None  # what had to be mended in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A piece of a file that could not."""

    place: Place
    reason: str
