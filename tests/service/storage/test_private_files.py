"""Files of the data folder are private whatever the umask, and no link is followed."""

import logging
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from latencytrace.errors import StoreError
from latencytrace.service.storage.private_files import (
    open_private,
    private_folder,
    private_umask,
    read_private,
    refuse_link,
    write_private,
)

_NOBODY = 65534
_WRITE = os.O_WRONLY | os.O_CREAT
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture(autouse=True, params=[0o000, 0o022, 0o077, 0o177], ids="umask {:03o}".format)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    made.chmod(0o755)
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_new_folder_is_its_owners_alone(folder: Path) -> None:
    private_folder(folder / "journal")

    assert mode(folder / "journal") == 0o700


def test_a_folder_that_others_can_enter_is_tightened_and_said(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        private_folder(folder)
        private_folder(folder)

    assert mode(folder) == 0o700
    [said] = caplog.messages
    assert str(folder) in said
    assert "0755" in said


def test_a_file_in_the_folders_place_is_named(folder: Path) -> None:
    (folder / "journal").touch()

    with pytest.raises(FileExistsError, match="no folder"):
        private_folder(folder / "journal")


def test_only_the_data_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)

    with pytest.raises(StoreError, match="symbolic link"):
        private_folder(link)
    assert mode(folder) == 0o755
    private_folder(link, may_be_link=True)
    assert mode(folder) == 0o700


@as_root
@pytest.mark.parametrize("loose", [0o777, 0o1777, 0o775])
def test_a_folder_of_somebody_elses_that_others_write_into_is_refused(
    folder: Path, loose: int
) -> None:
    os.chown(folder, _NOBODY, _NOBODY)
    folder.chmod(loose)

    with pytest.raises(StoreError, match="belongs to another user"):
        private_folder(folder)
    assert mode(folder) == loose


@as_root
def test_a_folder_of_somebody_elses_that_only_he_writes_into_is_left_as_it_is(
    folder: Path,
) -> None:
    os.chown(folder, _NOBODY, _NOBODY)

    private_folder(folder)

    assert mode(folder) == 0o755


def test_a_new_file_is_its_owners_alone(folder: Path) -> None:
    os.close(open_private(folder / "lock", _WRITE))

    assert mode(folder / "lock") == 0o600


def test_a_file_that_others_can_read_is_tightened_and_said(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "lock").write_text("kept")
    (folder / "lock").chmod(0o644)

    with caplog.at_level(logging.WARNING):
        assert read_private(folder / "lock") == b"kept"

    assert mode(folder / "lock") == 0o600
    assert "0644" in caplog.text


@pytest.mark.parametrize("flags", [os.O_RDONLY, _WRITE, _WRITE | os.O_TRUNC, _WRITE | os.O_EXCL])
def test_no_link_is_followed(folder: Path, tmp_path: Path, flags: int) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    elsewhere.chmod(0o644)
    (folder / "lock").symlink_to(elsewhere)

    with pytest.raises(StoreError, match="lock is a symbolic link"):
        open_private(folder / "lock", flags)
    assert elsewhere.read_text() == "untouched"
    assert mode(elsewhere) == 0o644


def test_a_link_to_nothing_makes_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "lock").symlink_to(tmp_path / "new")

    with pytest.raises(StoreError, match="symbolic link"):
        open_private(folder / "lock", _WRITE)
    with pytest.raises(StoreError, match="symbolic link"):
        refuse_link(folder / "lock")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
def test_a_pipe_in_a_files_place_holds_nobody_up(folder: Path, flags: int) -> None:
    os.mkfifo(folder / "lock", 0o600)
    (folder / "lock").chmod(0o600)

    with pytest.raises(StoreError, match="no regular file"):
        open_private(folder / "lock", flags)


def test_a_socket_and_a_folder_in_a_files_place_are_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        for name in ("s", "d"):
            (tmp_path / "d").mkdir(exist_ok=True)
            with pytest.raises(StoreError, match="no regular file"):
                open_private(tmp_path / name, os.O_WRONLY)


def test_a_file_is_not_inherited_by_children(folder: Path) -> None:
    opened = open_private(folder / "lock", _WRITE)

    assert not os.get_inheritable(opened)
    os.close(opened)


def test_a_file_is_written_whole_or_not_at_all(folder: Path, tmp_path: Path) -> None:
    write_private(folder / "about", b"first")
    assert mode(folder / "about") == 0o600
    (folder / "about.part").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreError, match="symbolic link"):
        write_private(folder / "about", b"second")

    assert read_private(folder / "about") == b"first"
    assert not (tmp_path / "elsewhere").exists()


def test_a_link_in_a_files_place_is_replaced_and_not_written_through(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "about").symlink_to(tmp_path / "elsewhere")

    write_private(folder / "about", b"new")

    assert not (tmp_path / "elsewhere").exists()
    assert read_private(folder / "about") == b"new"


def test_what_others_write_for_us_is_private_while_the_umask_is(folder: Path) -> None:
    with private_umask():
        (folder / "inside").touch()
        shutil.copyfile(folder / "inside", folder / "copied")

    assert {mode(folder / name) & 0o077 for name in ("inside", "copied")} == {0}
