"""What the servers of these tests need."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.agent.receiving import Receiver
from tests.support.servers.browser import chromium


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Takes spans."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium without a window."""
    with (
        sync_playwright() as playwright,
        chromium(playwright, tmp_path_factory.mktemp("browser")) as started,
    ):
        yield started


@pytest.fixture
def picture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where the picture of a page is stored: in the folder of `--pictures` if it has one of it."""
    page = str(request.node.callspec.id).removeprefix("light-").replace(" ", "-")
    folder: Path | None = request.config.getoption("--pictures")
    known = (folder or tmp_path) / f"page-{page}.png"
    return known if known.exists() else tmp_path / known.name
