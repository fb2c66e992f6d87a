"""Blocks of spans that were acknowledged and are not in the store yet: files that outlive us.

A file is a row of records: a head with a magic number, the block's length and checksums, then
the block. A damaged record costs itself alone: the next one is found by its magic number.
What cannot be read is kept in a file of its own, never deleted. A record that
the end of a file cuts off was never acknowledged. What is read again after a crash may be in
the store already, where a span that comes twice is one.
"""

import logging
import os
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from latencytrace.errors import StoreError
from latencytrace.service.storage.private_files import open_private, private_folder, read_private

_log = logging.getLogger(__name__)

_MAGIC: Final = b"\xf1spans\r\n"  # no text and no protobuf of ours begins so
_FIELDS: Final = Struct("<8sII")  # the magic number, bytes of the block, their CRC-32
_CHECKSUM: Final = Struct("<I")  # of the fields before it
_HEAD_BYTES: Final = _FIELDS.size + _CHECKSUM.size
_NAME = re.compile(r"[0-9]{12}\.spans", re.ASCII)
_PROBE: Final = "probe"  # a file that is written and deleted again
_PROBE_BYTES: Final = 256 * 1024
_ASIDE = re.compile(r"[0-9]{12}\.damaged", re.ASCII)


@dataclass(slots=True, eq=False)
class Segment:
    """One file."""

    path: Path
    blocks: int  # in it that are not in the store
    damaged: int = 0  # stretches of it that cannot be read

    def refuse(self, error: Exception) -> None:
        """Note that one of its blocks is whole and holds no spans."""
        _log.error("a block of %s is no OTLP, and is kept with the file: %s", self.path, error)
        self.damaged += 1
        self.blocks -= 1
        if self.blocks <= 0:
            _end(self)


@dataclass(slots=True)
class _Content:
    """The content of a file."""

    blocks: list[bytes]
    damaged: int
    torn_bytes: int  # at its end, never acknowledged


class Journal:
    """The files of this process, and of earlier ones.

    It has no lock: a caller that uses it from several threads must hold one.

    Args:
        folder: Where they lie; made where there is none.

    Raises:
        StoreError: The folder cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken_up: list[Segment] = []  # files of an earlier process that are damaged
        try:
            private_folder(folder)
            entries = sorted(folder.iterdir())
        except OSError as error:
            raise StoreError(f"the journal {folder} cannot be used: {error}") from error
        self._left = [path for path in entries if _is_segment(path)]
        numbers = (int(path.stem) for path in entries if _NAME.fullmatch(path.name))
        aside = (int(path.stem) for path in entries if _ASIDE.fullmatch(path.name))
        self._number = max((*numbers, *aside), default=0)
        self._file: int | None = None
        self._segment: Segment | None = None
        self._size = 0

    @property
    def damaged_files(self) -> Mapping[str, int]:
        """Return how many stretches of each file could not be read, each a block or more."""
        return {one.path.name: one.damaged for one in self._taken_up if one.damaged}

    def left(self) -> Iterator[tuple[bytes, Segment]]:
        """The blocks that an earlier process acknowledged and did not commit."""
        for path in self._left:
            try:
                content = _content(read_private(path))
            except (OSError, StoreError, MemoryError) as error:  # the last: a length that is rot
                self._taken_up.append(Segment(path, 0, 1))
                _log.error("%s cannot be read and stays where it is: %s", path, error)
                continue
            segment = Segment(path, len(content.blocks), content.damaged)
            self._taken_up.append(segment)
            if content.torn_bytes:
                _log.warning("%s ends in a torn block, which was never acknowledged", path)
            if content.damaged:
                _log.error(
                    "%s is damaged in %d places: the spans in them are lost, all others are "
                    "stored, and the file is kept as %s",
                    path,
                    content.damaged,
                    _aside(path).name,
                )
            if not content.blocks:
                _end(segment)
            for block in content.blocks:
                yield block, segment
        self._left = []

    def append(self, block: bytes) -> Segment:
        """Write a block down; from then on it outlives this process.

        Returns:
            Where it is, for `committed`.

        Raises:
            StoreError: The disk is full, and the like.
        """
        try:
            return self._append(_head(block), block)
        except OSError as error:
            raise StoreError(f"the journal cannot be written: {error}") from error

    def probe(self) -> None:
        """Look whether a block could be written.

        Raises:
            StoreError: The disk is full, and the like.
        """
        path = self._folder / _PROBE
        try:
            file = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                _write(file, bytes(_PROBE_BYTES))
            finally:
                os.close(file)
                path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"the journal cannot be written: {error}") from error

    def rotate(self) -> None:
        """Write what comes from now on into a file of its own."""
        if self._file is not None and self._segment is not None:
            with suppress(OSError):  # of a network's disk; the next block meets it, too
                os.close(self._file)
            rotated, self._file, self._segment = self._segment, None, None
            if rotated.blocks <= 0:
                _end(rotated)

    def committed(self, segment: Segment) -> None:
        """Note that one of a file's blocks is in the store, or never will be."""
        segment.blocks -= 1
        if segment.blocks <= 0 and segment is not self._segment:
            _end(segment)

    def _append(self, *parts: bytes) -> Segment:
        if self._file is None or self._segment is None:
            path, self._file = self._new_file()
            self._segment, self._size = Segment(path, 0), 0
        try:
            for part in parts:
                _write(self._file, part)
        except OSError:
            os.ftruncate(self._file, self._size)
            os.lseek(self._file, self._size, os.SEEK_SET)
            raise
        self._size += sum(map(len, parts))
        self._segment.blocks += 1
        return self._segment

    def _new_file(self) -> tuple[Path, int]:
        while True:
            self._number += 1
            path = self._folder / f"{self._number:012}.spans"
            if not os.path.lexists(path):  # something strange may have that name
                return path, open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def _is_segment(path: Path) -> bool:
    """Return whether it is a file of ours; anything else is named and left alone."""
    if _NAME.fullmatch(path.name) and stat.S_ISREG(path.lstat().st_mode):
        return True
    if _ASIDE.fullmatch(path.name):
        _log.warning("%s is damaged and was set aside: delete it, or keep it for a repair", path)
    elif path.name != _PROBE:
        _log.warning("%s is no file of the journal and is left alone", path)
    return False


def _write(file: int, part: bytes) -> None:
    view = memoryview(part)
    while view:
        view = view[os.write(file, view) :]


def _end(segment: Segment) -> None:
    """Delete a file whose blocks are all stored; set a damaged one aside."""
    try:
        if segment.damaged:
            segment.path.rename(_aside(segment.path))
        else:
            segment.path.unlink(missing_ok=True)
    except OSError as error:  # its spans are stored again at the next start, each once
        _log.error("%s could not be removed: %s", segment.path, error)


def _aside(path: Path) -> Path:
    return path.with_suffix(".damaged")


def _head(block: bytes) -> bytes:
    fields = _FIELDS.pack(_MAGIC, len(block), zlib.crc32(block))
    return fields + _CHECKSUM.pack(zlib.crc32(fields))


def _content(data: bytes) -> _Content:
    """The whole blocks of a file, and how many stretches of it are none."""
    found = _Content(blocks=[], damaged=0, torn_bytes=0)
    at, end = 0, len(data)
    while at < end:
        size_and_checksum = _fields_at(data, at)
        if size_and_checksum is None:
            resumed = _next_head(data, at + 1)
            if resumed is None and end - at < _HEAD_BYTES and _MAGIC.startswith(data[at : at + 8]):
                found.torn_bytes = end - at
            else:
                found.damaged += 1
            at = end if resumed is None else resumed
            continue
        size, checksum = size_and_checksum
        begin = at + _HEAD_BYTES
        if begin + size > end:
            found.torn_bytes = end - at
            break
        block = data[begin : begin + size]
        if zlib.crc32(block) == checksum:
            found.blocks.append(block)
        else:
            found.damaged += 1
        at = begin + size
    return found


def _fields_at(data: bytes, at: int) -> tuple[int, int] | None:
    """Length and checksum of the block that begins there; None: none does."""
    if at + _HEAD_BYTES > len(data):
        return None
    magic, size, checksum = _FIELDS.unpack_from(data, at)
    (own,) = _CHECKSUM.unpack_from(data, at + _FIELDS.size)
    is_head = magic == _MAGIC and own == zlib.crc32(data[at : at + _FIELDS.size])
    return (size, checksum) if is_head else None


def _next_head(data: bytes, at: int) -> int | None:
    """Return where the next head begins; None: there is none."""
    while (at := data.find(_MAGIC, at)) >= 0:
        if _fields_at(data, at) is not None:
            return at
        at += 1
    return None
