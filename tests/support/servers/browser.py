"""Chromium without a window, as the Makefile unpacked it, and what a page asked for and said."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Playwright

UNPACKED = Path(__file__).parents[3] / ".venv" / "chromium"
PROGRAM = "chromium-headless-shell"
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>{unpacked}/usr/share/fonts</dir>
<dir>/usr/share/fonts</dir>
<cachedir>{cache}</cachedir>
</fontconfig>
"""


def program() -> str | None:
    """Where a Chromium is; None: nowhere."""
    unpacked = UNPACKED / "usr" / "lib" / "chromium" / PROGRAM
    return (
        str(unpacked) if unpacked.exists() else shutil.which(PROGRAM) or shutil.which("chromium")
    )


@contextmanager
def chromium(playwright: Playwright, folder: Path) -> Iterator[Browser]:
    """Start it, with its own libraries and fonts."""
    found = program()
    if found is None:
        pytest.skip("no Chromium is here: `make test` unpacks one")
    fonts = folder / "fonts.conf"
    fonts.write_text(FONTS.format(unpacked=UNPACKED, cache=folder / "fonts"))
    libraries = sorted({str(path.parent) for path in UNPACKED.rglob("*.so*")})
    browser = playwright.chromium.launch(
        executable_path=found,
        args=["--font-render-hinting=none", "--disable-lcd-text"],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(libraries),
            "FONTCONFIG_FILE": str(fonts),
        },
    )
    try:
        yield browser
    finally:
        browser.close()


@dataclass
class Watched:
    """What went wrong on a page, and which hosts it asked."""

    errors: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, page: Page) -> "Watched":
        """Watch a page from now on; violations of its policy are errors on its console."""
        watched = cls()
        page.on(
            "console",
            lambda said: watched.errors.append(said.text) if said.type == "error" else None,
        )
        page.on("pageerror", lambda error: watched.errors.append(str(error)))
        page.on("dialog", lambda dialog: watched.errors.append(f"dialog {dialog.message}"))
        page.on("request", lambda asked: watched.hosts.add(urlsplit(asked.url).netloc))
        return watched
