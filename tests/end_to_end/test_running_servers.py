"""The programs that these tests start, where one does not."""

import sys
from pathlib import Path

import pytest

from tests.support.servers.running_prometheus import RunningServer
from tests.support.servers.running_service import RunningService


def open_files() -> list[str]:
    """Everything that this process holds open."""
    links = Path("/proc/self/fd").iterdir()
    return sorted(str(link.readlink()) for link in links if link.is_symlink())


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells what is open")
def test_a_server_that_ends_at_once_is_told_with_its_words_and_leaves_nothing_open(
    tmp_path: Path,
) -> None:
    before = open_files()

    with pytest.raises(AssertionError, match="I have no templates"):
        RunningServer(tmp_path / "server", {}, sys.executable, "-c", "exit('I have no templates')")

    assert open_files() == before


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells what is open")
def test_a_service_that_ends_at_once_likewise(tmp_path: Path) -> None:
    before = open_files()

    with pytest.raises(AssertionError, match="No such option"):
        RunningService(tmp_path / "data", "--no-such-flag")

    assert open_files() == before
