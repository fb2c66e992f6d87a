"""Whatever the service keeps in the data folder is private, and written through no link."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from latencytrace.errors import StoreError
from latencytrace.model import Tally
from latencytrace.service.objectives.memory import FILE, ObjectiveMemory
from latencytrace.service.profiles.folder import ProfileFolder
from latencytrace.service.sql_store.pending_copies import NotedTraces

_TRACE_ID = "1" * 32
_PROFILE_ID = "2" * 32


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def note(folder: Path) -> None:
    NotedTraces(folder / "to_keep").add([_TRACE_ID])


def keep_profile(folder: Path) -> None:
    ProfileFolder(folder / "profiles").keep(_PROFILE_ID, {"service": "chat"}, b"packed")


def remember(folder: Path) -> ObjectiveMemory:
    memory = ObjectiveMemory.open(folder, now_ns=10)
    memory.keep({("a", 1, 2): Tally(bad=1, total=2)}, {}, {})
    return memory


@pytest.mark.parametrize("write", [note, keep_profile, remember])
def test_what_is_kept_is_its_owners_alone(
    tmp_path: Path, write: Callable[[Path], ObjectiveMemory | None]
) -> None:
    memory = write(tmp_path)

    made = sorted(tmp_path.rglob("*"))
    assert made
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in made} == {0}
    if memory is not None:
        assert [path.name for path in made] == [FILE, f"{FILE}-shm", f"{FILE}-wal"]
        memory.close()


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (note, "to_keep"),
        (keep_profile, "profiles"),
        (keep_profile, f"profiles/{_PROFILE_ID}.json.gz.part"),
        (remember, FILE),
        (remember, f"{FILE}-wal"),
        (remember, f"{FILE}-shm"),
        (remember, f"{FILE}-journal"),
    ],
)
def test_nothing_is_written_through_a_link(
    tmp_path: Path, write: Callable[[Path], object], name: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    link = tmp_path / "data" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)

    with pytest.raises(StoreError, match="symbolic link"):
        write(tmp_path / "data")

    assert not elsewhere.exists()


def test_a_profile_that_is_a_link_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = ProfileFolder(tmp_path)
    folder.keep(_PROFILE_ID, {"service": "chat"}, b"packed")
    about = tmp_path / f"{_PROFILE_ID}.about.json"
    about.rename(tmp_path / "elsewhere")
    about.symlink_to(tmp_path / "elsewhere")

    assert list(folder.load()) == []
    assert "symbolic link" in caplog.text
