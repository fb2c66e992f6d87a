"""Blocks of spans that were answered for and are not in the store yet: files that outlive us.

A file is a row of blocks, each after its length and its checksum. One that is torn was never
answered for. What is read again after a crash may be in the store already, where a span that
comes twice is one.
"""

import logging
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from latencytrace.errors import StoreError

_log = logging.getLogger(__name__)

_HEAD: Final = Struct("<II")  # bytes of the block, their CRC-32


@dataclass(slots=True, eq=False)
class Segment:
    """One file."""

    path: Path
    blocks: int  # in it that are not in the store


class Journal:
    """The files of one process, and those that an earlier one left.

    It has no lock: whoever uses it from several threads holds one.

    Args:
        folder: Where they lie; made where there is none.

    Raises:
        StoreError: The folder cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._left = sorted(path for path in folder.iterdir() if path.stem.isdigit())
        except OSError as error:
            raise StoreError(f"the journal {folder} cannot be used: {error}") from error
        self._folder = folder
        self._number = int(self._left[-1].stem) if self._left else 0
        self._file: int | None = None
        self._segment: Segment | None = None
        self._size = 0

    def left(self) -> Iterator[tuple[bytes, Segment]]:
        """The blocks that an earlier process answered for and did not commit."""
        for path in self._left:
            blocks = list(_blocks_of(path))
            segment = Segment(path, len(blocks))
            if not blocks:
                path.unlink(missing_ok=True)
            for block in blocks:
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
            return self._append(_HEAD.pack(len(block), zlib.crc32(block)) + block)
        except OSError as error:
            raise StoreError(f"the journal cannot be written: {error}") from error

    def turn(self) -> None:
        """Write what comes from now on into a file of its own."""
        if self._file is not None and self._segment is not None:
            os.close(self._file)
            turned, self._file, self._segment = self._segment, None, None
            _remove_if_empty(turned)

    def committed(self, segment: Segment) -> None:
        """Note that one of a file's blocks is in the store, or never will be."""
        segment.blocks -= 1
        if segment is not self._segment:
            _remove_if_empty(segment)

    def _append(self, record: bytes) -> Segment:
        if self._file is None or self._segment is None:
            self._number += 1
            path = self._folder / f"{self._number:012}.spans"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._segment, self._size = Segment(path, 0), 0
        try:
            view = memoryview(record)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            os.ftruncate(self._file, self._size)
            os.lseek(self._file, self._size, os.SEEK_SET)
            raise
        self._size += len(record)
        self._segment.blocks += 1
        return self._segment


def _remove_if_empty(segment: Segment) -> None:
    if segment.blocks <= 0:
        segment.path.unlink(missing_ok=True)


def _blocks_of(path: Path) -> Iterator[bytes]:
    """The whole blocks of a file."""
    content = memoryview(path.read_bytes())
    while len(content) >= _HEAD.size:
        size, checksum = _HEAD.unpack_from(content)
        block = bytes(content[_HEAD.size : _HEAD.size + size])
        if len(block) < size or zlib.crc32(block) != checksum:
            break
        content = content[_HEAD.size + size :]
        yield block
    if content:
        _log.warning("%s ends in a torn block, which nobody was answered for", path)
