"""What is answered for outlives the process, once and whole."""

import os
import resource
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from latencytrace.errors import StoreError
from latencytrace.service.ingest.journal import Journal


def left(folder: Path) -> list[bytes]:
    """What the next process finds."""
    return [block for block, _ in Journal(folder).left()]


@contextmanager
def at_most(what: int, size: int) -> Iterator[None]:
    """A limit of the process: of memory, or of files, as where the disk is full."""
    before = resource.getrlimit(what)
    resource.setrlimit(what, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, before)


def files_no_longer_than(size: int) -> AbstractContextManager[None]:
    """The disk is full where a file reaches this size."""
    return at_most(resource.RLIMIT_FSIZE, size)


def test_a_new_folder_holds_nothing(tmp_path: Path) -> None:
    assert left(tmp_path / "journal") == []


def test_the_next_process_finds_what_was_not_committed_in_its_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one")
    journal.rotate()
    journal.append(b"two")
    journal.append(b"")

    assert left(tmp_path) == [b"one", b"two", b""]


def test_a_file_goes_once_all_its_blocks_are_committed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    segments = [journal.append(b"one"), journal.append(b"two")]
    journal.rotate()
    journal.append(b"three")

    journal.committed(segments[0])
    assert left(tmp_path) == [b"one", b"two", b"three"]

    journal.committed(segments[1])
    assert left(tmp_path) == [b"three"]


def test_a_file_whose_blocks_are_committed_before_it_ends_goes_with_its_end(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path)
    journal.committed(journal.append(b"one"))

    journal.rotate()

    assert list(tmp_path.iterdir()) == []


def test_what_is_left_goes_once_it_is_committed(tmp_path: Path) -> None:
    Journal(tmp_path).append(b"one")
    journal = Journal(tmp_path)
    [(_, segment)] = journal.left()
    journal.append(b"two")

    journal.committed(segment)

    assert left(tmp_path) == [b"two"]


RECORD_BYTES = 23  # of a block of three


@pytest.mark.parametrize("lost", range(1, RECORD_BYTES + 1))
def test_a_torn_block_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: int
) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one")
    path = journal.append(b"two").path
    path.write_bytes(path.read_bytes()[:-lost])

    assert left(tmp_path) == [b"one"]
    assert ("torn" in caplog.text) == (lost < RECORD_BYTES)
    assert not list(tmp_path.glob("*.damaged"))


@pytest.mark.parametrize("bit", range(0, RECORD_BYTES * 8, 3))
def test_a_wrong_bit_costs_its_own_block_alone(tmp_path: Path, bit: int) -> None:
    journal = Journal(tmp_path)
    path = journal.append(b"one").path
    journal.append(b"two")
    journal.append(b"six")
    content = bytearray(path.read_bytes())
    content[RECORD_BYTES + bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)

    after = Journal(tmp_path)
    found = list(after.left())
    for _, segment in found:
        after.committed(segment)

    assert [block for block, _ in found] == [b"one", b"six"]
    assert after.damaged_files == {path.name: 1}
    assert [one.name for one in tmp_path.iterdir()] == ["000000000001.damaged"]
    assert (tmp_path / "000000000001.damaged").read_bytes() == content


def test_the_numbers_of_files_that_were_set_aside_are_not_used_again(tmp_path: Path) -> None:
    (tmp_path / "000000000007.damaged").write_bytes(b"what was damaged before")

    assert Journal(tmp_path).append(b"one").path.name == "000000000008.spans"


@pytest.mark.parametrize("content", [bytes(4096), b"\1" * 20, b"no journal at all" * 99])
def test_what_is_no_block_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "000000000001.spans").write_bytes(content)
    journal = Journal(tmp_path)

    assert list(journal.left()) == []
    assert list(journal.damaged_files.values()) == [1]
    assert (tmp_path / "000000000001.damaged").read_bytes() == content


def test_zeros_behind_the_blocks_are_no_blocks(tmp_path: Path) -> None:
    path = Journal(tmp_path).append(b"one").path
    path.write_bytes(path.read_bytes() + bytes(8192))
    journal = Journal(tmp_path)

    assert [block for block, _ in journal.left()] == [b"one"]
    assert list(journal.damaged_files.values()) == [1]


def test_a_file_of_an_impossible_length_stays_and_the_others_are_read(tmp_path: Path) -> None:
    Journal(tmp_path).append(b"one")
    impossible = tmp_path / "000000000002.spans"
    impossible.touch()
    os.truncate(impossible, 1 << 42)

    with at_most(resource.RLIMIT_AS, 1 << 40):
        journal = Journal(tmp_path)
        read = [block for block, _ in journal.left()]

    assert read == [b"one"]
    assert journal.damaged_files == {impossible.name: 1}
    assert impossible.exists()


def test_strange_entries_are_named_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "000000000001.spans").mkdir()
    (tmp_path / "000000000002.spans").symlink_to(tmp_path / "nowhere")
    (tmp_path / "\u00b2.spans").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("mine")
    before = sorted(tmp_path.iterdir())
    journal = Journal(tmp_path)
    journal.append(b"one")

    assert left(tmp_path) == [b"one"]
    assert len(before) == 4
    assert all(str(path) in caplog.text for path in before)
    assert set(before) < set(tmp_path.iterdir())


def test_a_name_that_is_taken_is_passed_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    (tmp_path / "000000000001.spans").mkdir()

    assert journal.append(b"one").path.name == "000000000002.spans"


def test_a_whole_block_that_holds_no_spans_is_set_aside_with_its_file(tmp_path: Path) -> None:
    Journal(tmp_path).append(b"one")
    journal = Journal(tmp_path)
    [(_, segment)] = journal.left()

    segment.refuse(ValueError("it is no OTLP"))

    assert list(journal.damaged_files.values()) == [1]
    assert [one.name for one in tmp_path.iterdir()] == ["000000000001.damaged"]


def test_a_full_disk_is_found_to_have_room_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with files_no_longer_than(100), pytest.raises(StoreError, match="cannot be written"):
        journal.probe()

    journal.probe()

    assert list(tmp_path.iterdir()) == []


def test_others_cannot_read_what_it_writes(tmp_path: Path) -> None:
    path = Journal(tmp_path / "journal").append(b"one").path

    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_full_disk_refuses_a_block_and_keeps_those_before_and_after(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one")
    with files_no_longer_than(100), pytest.raises(StoreError, match="cannot be written"):
        journal.append(b"x" * 200)

    journal.append(b"two")

    assert left(tmp_path) == [b"one", b"two"]


def test_a_folder_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("a file")

    with pytest.raises(StoreError, match="journal"):
        Journal(tmp_path / "journal")
