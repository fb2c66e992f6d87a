"""What is answered for outlives the process, once and whole."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from latencytrace.errors import StoreError
from latencytrace.service.journal import Journal


def left(folder: Path) -> list[bytes]:
    """What the next process finds."""
    return [block for block, _ in Journal(folder).left()]


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """The disk is full where a file reaches this size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_new_folder_holds_nothing(tmp_path: Path) -> None:
    assert left(tmp_path / "journal") == []


def test_the_next_process_finds_what_was_not_committed_in_its_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one")
    journal.turn()
    journal.append(b"two")
    journal.append(b"")

    assert left(tmp_path) == [b"one", b"two", b""]


def test_a_file_goes_once_all_its_blocks_are_committed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    segments = [journal.append(b"one"), journal.append(b"two")]
    journal.turn()
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

    journal.turn()

    assert list(tmp_path.iterdir()) == []


def test_what_is_left_goes_once_it_is_committed(tmp_path: Path) -> None:
    Journal(tmp_path).append(b"one")
    journal = Journal(tmp_path)
    [(_, segment)] = journal.left()
    journal.append(b"two")

    journal.committed(segment)

    assert left(tmp_path) == [b"two"]


@pytest.mark.parametrize("lost", range(1, 12))
def test_a_torn_block_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: int
) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one")
    path = journal.append(b"two").path
    path.write_bytes(path.read_bytes()[:-lost])

    assert left(tmp_path) == [b"one"]
    assert ("torn" in caplog.text) == (lost < 11)


def test_a_block_with_a_wrong_byte_is_left_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one")
    path = journal.append(b"two").path
    path.write_bytes(path.read_bytes()[:-1] + b"x")

    assert left(tmp_path) == [b"one"]


def test_a_file_of_zeros_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "000000000001.spans").write_bytes(bytes(3) + b"\1" * 20)

    assert left(tmp_path) == []


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
