"""A backup: a tar file of pieces, and at its end what they are and how to check them."""

import hashlib
import io
import json
import os
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from latencytrace.cli.pictures.terminal import side_screen
from latencytrace.cli.processes.output_file import part_of
from latencytrace.errors import LatencytraceError
from latencytrace.model.texts.units import count
from latencytrace.service.store import Piece, Table

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
_DIGEST: Final = "LATENCYTRACE.sha256"  # in the head of the manifest; older ones have none
_PIECE: Final = ("since_s", "until_s", "first_s", "last_s", "share", "shares")
Counts = Mapping[tuple[str, str], int]  # rows by table and day


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A piece in a backup."""

    file: str
    sha256: str  # of the file, as it lies there
    bytes: int  # of its rows, unpacked
    piece: Piece  # with as many rows as there are

    def document(self) -> dict[str, Any]:
        """Everything, as the manifest has it."""
        piece = asdict(self.piece)
        return {
            "file": self.file, "sha256": self.sha256, "bytes": self.bytes,
            **{name: piece[name] for name in ("table", *_PIECE, "rows")}, "day": self.piece.day,
        }  # fmt: skip

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Entry":
        return cls(
            file=str(document["file"]),
            sha256=str(document["sha256"]),
            bytes=int(document["bytes"]),
            piece=piece_of(document),
        )


def piece_of(document: Mapping[str, Any]) -> Piece:
    """Read a piece, of whatever says more of it."""
    numbers = {name: int(document[name]) for name in (*_PIECE, "rows")}
    return Piece(table=Table(document["table"]), **numbers)


def counts_of(pieces: Iterable[Piece]) -> Counts:
    """How many rows pieces have."""
    found: Counter[tuple[str, str]] = Counter()
    for piece in pieces:
        found[piece.table, piece.day] += piece.rows
    return found


class ArchiveWriter:
    """Writes a backup."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self.entries: list[Entry] = []

    def add(self, piece: Piece, packed: bytes, size: int) -> None:
        file = f"{piece.table}/{len(self.entries):06}.native.zst"
        digest = hashlib.sha256(packed).hexdigest()
        self._write(file, packed)
        self.entries.append(Entry(file=file, sha256=digest, bytes=size, piece=piece))

    def finish(self) -> None:
        """Write down what it holds: without this, it is none."""
        document = {
            "format": FORMAT,
            "version": version("latencytrace"),
            "taken": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "files": [entry.document() for entry in self.entries],
        }
        manifest = json.dumps(document, indent=1).encode()
        self._write(MANIFEST, manifest, {_DIGEST: hashlib.sha256(manifest).hexdigest()})

    def _write(self, name: str, content: bytes, said: Mapping[str, str] = {}) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.pax_headers = len(content), 0o600, dict(said)
        self._archive.addfile(info, io.BytesIO(content))


@contextmanager
def new_archive(path: Path) -> Iterator[ArchiveWriter]:
    """A backup under this name, once the block has ended and it was read again; else none.

    Raises:
        LatencytraceError: There is something of that name, or it cannot be written.
    """
    if os.path.lexists(path):
        raise LatencytraceError(f"{path} is there already: name a new file")
    try:
        with part_of(path, 0o600) as part:
            with part.open("wb") as file:
                with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
                    writer = ArchiveWriter(archive)
                    yield writer
                    writer.finish()
                file.flush()
                os.fsync(file.fileno())
            checked(part)
            part.rename(path)
    except OSError as error:
        raise LatencytraceError(f"{path} cannot be written: {error.strerror or error}") from None


def checked(path: Path) -> list[Entry]:
    """The contents of a backup, once every byte of it was compared with its checksum.

    Raises:
        LatencytraceError: It is none, or damaged, or of a newer version.
    """
    digests: dict[str, str] = {}
    manifest: Mapping[str, Any] = {}
    try:
        for member, content in _members(path):
            digest = hashlib.sha256(content).hexdigest()
            if member.name == MANIFEST:
                manifest = _manifest(
                    content, is_whole=member.pax_headers.get(_DIGEST, digest) == digest
                )
            else:
                digests[member.name] = digest
        entries = _entries(path, manifest)
    except (tarfile.TarError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LatencytraceError(f"{path} is no backup, or damaged: {error}") from None
    except OSError as error:
        raise LatencytraceError(f"{path} cannot be read: {error.strerror or error}") from None
    for entry in entries:
        if digests.pop(entry.file, None) != entry.sha256:
            raise LatencytraceError(f"{path} is damaged: {entry.file} is not what was written")
    if digests:
        raise LatencytraceError(f"{path} holds {min(digests)}, which its manifest does not name")
    return entries


def _manifest(content: bytes, *, is_whole: bool) -> Mapping[str, Any]:
    if not is_whole:
        raise ValueError(f"{MANIFEST} is not what was written")
    manifest: Mapping[str, Any] = json.loads(content)
    return manifest


def _entries(path: Path, manifest: Mapping[str, Any]) -> list[Entry]:
    if not manifest:
        raise LatencytraceError(f"{path} has no {MANIFEST}: it was cut off, or is no backup")
    if manifest["format"] != FORMAT:
        raise LatencytraceError(
            f"{path} is of format {manifest['format']}, and this version reads {FORMAT}"
        )
    return [Entry.of(one) for one in manifest["files"]]


def rows_in_archive(path: Path, entries: Iterable[Entry]) -> Iterator[tuple[Piece, bytes]]:
    """The pieces of a backup with their rows, in the order in which they were copied.

    Raises:
        LatencytraceError: One is not of the length that the manifest says.
    """
    by_file = {entry.file: entry for entry in entries}
    for member, content in _members(path):
        if entry := by_file.get(member.name):
            try:
                rows = pa.decompress(content, entry.bytes, codec="zstd", asbytes=True)
            except (OSError, MemoryError, OverflowError, SystemError) as error:
                raise LatencytraceError(
                    f"{path} is damaged: {entry.file} cannot be unpacked: {error}"
                ) from None
            yield entry.piece, rows


def _members(path: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(path, mode="r:") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is None:
                raise tarfile.TarError(f"{member.name!r} is no file")
            yield member, file.read()


class Advance(Protocol):
    """Called with how many rows are done."""

    def __call__(self, rows: int) -> None: ...


@contextmanager
def rows_bar(title: str, rows: int) -> Iterator[Advance]:
    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TextColumn("rows", markup=False), TimeRemainingColumn(), console=side_screen(),
        transient=True, disable=not sys.stderr.isatty(),
    ) as progress:  # fmt: skip
        task = progress.add_task(title, total=rows)
        yield lambda done: progress.advance(task, done)


def tables_line(counts: Counts) -> str:
    """How many rows of each table there are: `3 requests, 40 spans kept, 40 spans arrived`."""
    totals = dict.fromkeys(_NAMES, 0)
    for (table, _), rows in counts.items():
        totals[table] += rows
    return ", ".join(
        f"{count(totals[table], name)}{kind}" for table, (name, kind) in _NAMES.items()
    )


_NAMES = {
    "requests": ("request", ""),
    "spans": ("span", " kept"),
    "span_arrivals": ("span", " of the last hours"),
}
