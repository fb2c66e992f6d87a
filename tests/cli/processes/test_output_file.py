"""Files that a command writes: whole or not at all, and nothing else is touched."""

import os
import threading
from pathlib import Path

import pytest

from latencytrace.cli.processes.output_file import (
    check_writable,
    is_stdout,
    part_of,
    write_whole,
)
from tests.support.waiting import PATIENCE_S


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_rights_of_any_other(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a.csv", b"new")
    finally:
        os.umask(before)

    assert (tmp_path / "a.csv").read_bytes() == b"new"
    assert (tmp_path / "a.csv").stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["a.csv"]


def test_a_file_that_is_there_keeps_its_rights_and_its_neighbours(tmp_path: Path) -> None:
    there = tmp_path / "a.csv"
    there.write_bytes(b"old")
    there.chmod(0o604)
    (tmp_path / "a.csv.part").write_bytes(b"somebody's")

    write_whole(there, b"new")

    assert there.read_bytes() == b"new"
    assert there.stat().st_mode & 0o777 == 0o604
    assert (tmp_path / "a.csv.part").read_bytes() == b"somebody's"
    assert names(tmp_path) == ["a.csv", "a.csv.part"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_symbolic_link_is_followed(tmp_path: Path, *, is_there: bool) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    if is_there:
        (folder / "real.csv").write_bytes(b"old")
    (tmp_path / "link.csv").symlink_to(Path("elsewhere") / "real.csv")

    write_whole(tmp_path / "link.csv", b"new")

    assert (tmp_path / "link.csv").is_symlink()
    assert (folder / "real.csv").read_bytes() == b"new"
    assert names(folder) == ["real.csv"]


def test_a_named_pipe_is_written_through(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()

    check_writable(pipe)  # which must not open it: its reader would see an end
    write_whole(pipe, b"new" * 100_000)
    reader.join(PATIENCE_S)

    assert read == [b"new" * 100_000]
    assert pipe.is_fifo()


def test_the_pipe_of_a_shell_is_written_through() -> None:
    """As of `-o >(wc -c)`, which is a path to a descriptor."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader:
        write_whole(Path(f"/dev/fd/{writing}"), b"new")
        os.close(writing)

        assert reader.read() == b"new"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        write_whole(tmp_path, b"")
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        check_writable(tmp_path)

    assert names(tmp_path) == []


def test_what_cannot_be_written_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_bytes(b"old")

    def full(_: Path, __: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "a.csv", b"new")

    assert (tmp_path / "a.csv").read_bytes() == b"old"
    assert names(tmp_path) == ["a.csv"]


def test_a_name_of_any_length_that_a_file_may_have_will_do(tmp_path: Path) -> None:
    name = "a" * 255

    write_whole(tmp_path / name, b"new")

    assert (tmp_path / name).read_bytes() == b"new"


def test_a_file_that_is_looked_at_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"old")

    check_writable(tmp_path / "a.csv")
    check_writable(tmp_path / "b.csv")

    assert (tmp_path / "a.csv").read_bytes() == b"old"
    assert names(tmp_path) == ["a.csv"]
    with pytest.raises(FileNotFoundError):
        check_writable(tmp_path / "no folder" / "a.csv")


def test_a_part_is_of_the_rights_asked_for_and_goes(tmp_path: Path) -> None:
    with part_of(tmp_path / "a.tar", 0o600) as part, part_of(tmp_path / "a.tar") as another:
        assert part.stat().st_mode & 0o777 == 0o600
        assert part != another

    assert names(tmp_path) == []


def test_standard_output_has_names(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        assert is_stdout(Path("-"))
        assert is_stdout(Path("/proc/self/fd/1"))
    assert not is_stdout(tmp_path / "a.csv")
    assert not is_stdout(tmp_path)
