"""Troubles that a service must outlive: a kill, a changed bit, a full disk."""

import errno
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from latencytrace.service.otlp.span_block import unpacked
from latencytrace.service.otlp.traces import CheckedRequest
from tests.stress.sender import Sender
from tests.stress.stressed_service import StressedService
from tests.stress.workload import Post, Workload

JOURNAL: Final = "journal"  # the folder of its files
MAGIC: Final = b"\xf1spans\r\n"  # each record begins so; its length and checksums follow
HEAD_BYTES: Final = 20
DAMAGED_BLOCKS: Final = "latencytrace_service_journal_damaged_blocks_total"
MORE_KILLS: Final = 20  # at most, until a kill leaves something in the journal
NOTICED_WITHIN_S: Final = 30.0
DISK_MB: Final = 192
_FILLER: Final = ".filler"
_PIECE: Final = bytes(1 << 20)


class CannotMountError(Exception):
    """This machine lets us make no small disk; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedBit:
    """A bit that was changed in the journal, and what the next process said about it."""

    file: str  # its name
    post: Post  # the block in which it lies
    damaged_blocks: float | None  # as counted by the next process; None: it has no such metric
    is_named: bool  # whether its log names the file

    @property
    def faults(self) -> list[str]:
        """What the service should have said and did not."""
        faults = []
        if self.damaged_blocks != 1:
            told = "not there" if self.damaged_blocks is None else f"{self.damaged_blocks:g}"
            faults.append(f"{DAMAGED_BLOCKS} is {told}, not 1")
        if not self.is_named:
            faults.append(f"no line of the log names the damaged file {self.file}")
        return faults


@dataclass(frozen=True, slots=True, kw_only=True)
class FullDisk:
    """What senders and readers were told while the disk was full."""

    refused: int  # posts, with 503
    unready: str | None  # the reason at `/readyz`; None: it called itself ready
    is_ready_again: bool

    @property
    def faults(self) -> list[str]:
        """What the service should have said and did not."""
        named = {
            "no post was answered with 503 while the disk was full": self.refused == 0,
            "/readyz was ready while the disk was full": self.unready is None,
            "/readyz gave no reason while the disk was full": self.unready == "",
            "/readyz was not ready once there was space again": not self.is_ready_again,
        }
        return [text for text, is_so in named.items() if is_so]


def kill_again_and_again(
    service: StressedService, sender: Sender, workload: Workload, kills: int, seed: int = 1
) -> ChangedBit | None:
    """Kill the service at random moments while posts come, and change one bit once.

    The moments follow what was acknowledged, so that a slow machine has the same ones. The bit
    lies in a block of the journal, changed while nothing runs. Where no kill has left a block
    there, the service is killed some more times.

    Returns:
        The bit that was changed; None: no kill has left anything in the journal.
    """
    chance = random.Random(seed)
    moments = sorted(chance.sample(range(1, len(workload.posts)), kills))
    changed: ChangedBit | None = None
    for moment in (*moments, *[0] * MORE_KILLS):
        if not moment and (changed is not None or not sender.is_sending):
            break
        sender.wait_for(lambda record, least=moment: len(record.acknowledged) >= least)  # type: ignore[misc] # the default binds it
        time.sleep(chance.random())
        service.kill()
        damage = _change_a_bit(service.folder, workload, chance) if changed is None else None
        service.start()
        if damage is not None:
            file, post = damage
            changed = ChangedBit(
                file=file,
                post=post,
                damaged_blocks=service.metrics().get(DAMAGED_BLOCKS),
                is_named=file in service.running.said(),
            )
    return changed


def _change_a_bit(
    folder: Path, workload: Workload, chance: random.Random
) -> tuple[str, Post] | None:
    """Change a bit of one block of a journal, rather not of the last; its file and its post."""
    for path in sorted((folder / JOURNAL).iterdir()):
        content = bytearray(path.read_bytes())
        found = list(_blocks(content, workload))
        if found:
            at, size, post = found[chance.randrange(max(len(found) - 1, 1))]
            content[at + chance.randrange(size)] ^= 1 << chance.randrange(8)
            path.write_bytes(content)
            return path.name, post
    return None


def _blocks(content: bytearray, workload: Workload) -> Iterator[tuple[int, int, Post]]:
    """Where the blocks of a journal's file lie, how long each is, and the post that it holds."""
    posts = {(post.trace_ids, post.span_count): post for post in workload.posts}
    at = content.find(MAGIC)
    while at >= 0:
        size = int.from_bytes(content[at + len(MAGIC) :][:4], "little")
        at += HEAD_BYTES
        held = CheckedRequest.of(unpacked(bytes(content[at : at + size])))
        yield at, size, posts[frozenset(held.rows), held.span_count]
        at = content.find(MAGIC, at + size)


def fill_the_disk(service: StressedService, sender: Sender, least_posts: int) -> FullDisk:
    """Fill the disk of a service while posts come, until it says so, and free it again.

    Args:
        service: Its folder is a small disk.
        sender: Sends to it.
        least_posts: So many are acknowledged before.
    """
    sender.wait_for(lambda record: len(record.acknowledged) >= least_posts)
    refused_before = sender.record.answers[503]
    with _filled(service.folder):
        unready = _noticed(service, sender, refused_before)
        refused = sender.record.answers[503] - refused_before
    is_ready_again = _within(lambda: service.running.get("/readyz").is_success)
    return FullDisk(refused=refused, unready=unready, is_ready_again=is_ready_again)


def _noticed(service: StressedService, sender: Sender, refused_before: int) -> str | None:
    """Wait until a post was refused and the service calls itself unready; its reason."""
    reasons: list[str] = []

    def is_noticed() -> bool:
        answer = service.running.get("/readyz")
        if answer.status_code == 503:
            reasons.append(answer.text.strip())
        return bool(reasons) and sender.record.answers[503] > refused_before

    _within(is_noticed)
    return reasons[-1] if reasons else None


@contextmanager
def _filled(folder: Path) -> Iterator[None]:
    filler = folder / _FILLER
    file = os.open(filler, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for size in (len(_PIECE), 4096, 1):
            _write_until_full(file, _PIECE[:size])
        yield
    finally:
        os.close(file)
        filler.unlink()


def _write_until_full(file: int, piece: bytes) -> None:
    while True:
        try:
            os.write(file, piece)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return


@contextmanager
def small_disk(folder: Path, size_mb: int = DISK_MB) -> Iterator[None]:
    """Make a folder a disk of its own, of memory, while the block runs.

    Raises:
        CannotMountError: Only root may do so, or the machine has no such disks.
    """
    folder.mkdir()
    _mounting("mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=700", "tmpfs", str(folder))
    try:
        yield
    finally:
        _mounting("umount", "--lazy", str(folder))


def _mounting(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, check=False, text=True)
    except OSError as error:
        raise CannotMountError(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        raise CannotMountError(done.stderr.strip())


def _within(is_so: Callable[[], bool]) -> bool:
    """Wait until something is so, and return whether it came to be."""
    deadline_s = time.monotonic() + NOTICED_WITHIN_S
    while not (found := is_so()) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return found
