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
def picture(request: pytest.FixtureRequest) -> Path | None:
    """Where the picture of a page is stored: in the folder of `--pictures` if it has one of it."""
    folder: Path | None = request.config.getoption("--pictures")
    if folder is None:
        return None
    known = folder / f"page-{request.node.callspec.id.replace(' ', '-')}.png"
    return known if known.exists() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run with `--pictures` only what draws them."""
    if config.getoption("--pictures"):
        items[:] = [one for one in items if "picture" in getattr(one, "fixturenames", ())]
