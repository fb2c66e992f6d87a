"""Chromium without a window, as the Makefile unpacked it, and what a page asked for and said."""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page, Playwright, expect

UNPACKED = Path(sys.prefix) / "chromium"
PROGRAM = "chromium-headless-shell"
AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
SCREENS: Final[Mapping[str, Mapping[str, Any]]] = {
    "light": {},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 780}, "has_touch": True},
}
TALLEST = 2000  # pixels of a picture
PATIENCE_MS = 120_000
CUT_BARS = """[...document.querySelectorAll('table:not(.shifts) .wide > svg')]
  .filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.outerHTML)"""
CUT_NAMES = """[...document.querySelectorAll('svg.bar > svg')].filter((one) => {
    const name = one.querySelector('text');
    return name && getComputedStyle(name).display !== 'none' && name.getBoundingClientRect().right
      > one.querySelector('rect').getBoundingClientRect().right + 0.5;
  }).map((one) => one.outerHTML)"""
# What is clicked, but links within a text and points of a picture; a check box has its label.
SMALL_TARGETS = """[...document.querySelectorAll('a, button, input, select, summary')]
  .filter((one) => !one.closest('svg') && !one.matches('.skip, [type="checkbox"]')
    && getComputedStyle(one).display !== 'inline')
  .filter((one) => {
    const { width, height } = one.getBoundingClientRect();
    return width > 0 && Math.min(width, height) < 23.5;
  }).map((one) => one.outerHTML)"""
# Words so short that no narrow column may break them in two.
BROKEN_WORDS = r"""(() => {
    const found = [], range = document.createRange();
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode;
      if (text.parentElement.closest('svg, pre, code, script, style, .trace-id')) continue;
      for (const part of text.data.matchAll(/\S+/g)) {
        if (!/^\p{L}{3,11}[.,;:]?$/u.test(part[0])) continue;
        range.setStart(text, part.index);
        range.setEnd(text, part.index + part[0].length);
        const tops = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
        if (tops.size > 1) found.push(`${part[0]} in ${text.parentElement.outerHTML}`);
      }
    }
    return found;
  })()"""
VALUES = re.compile(r'(?<=<input name="service") value="[^"]*"|(?<=<option) value="[^"]*"')
RULES = "{rules: {'label-content-name-mismatch': {enabled: true}}}"  # of WCAG 2.1, but not yet on
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
    status: int = 0  # of the page itself

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


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[tuple[Page, Watched]]:
    """A page in a context of its own, watched from the start; nothing on it moves."""
    context = browser.new_context(**{"reduced_motion": "reduce", **options})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)  # else 5 s, which a busy machine may take
    watched = Watched.of(page)
    answer = page.goto(address, wait_until="load")
    watched.status = answer.status if answer else 0
    try:
        yield page, watched
    finally:
        context.close()


def check_sound(
    browser: Browser, url: str, path: str, picture: Path | None = None, **options: Any
) -> None:
    """Assert that a page has no serious fault: axe, width, cut bars, console, policy, other hosts.

    In light and in dark colours, and as a phone loads it.
    """
    with opened(browser, f"{url}{path}", **options) as (page, watched):
        keep(page, picture)
        check_shown(page)
        page.emulate_media(**SCREENS["dark"])
        check_shown(page)
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(SCREENS["phone"]["viewport"])
        page.reload()  # what is drawn depends on the width
        check_shown(page)
        assert (watched.status, watched.errors) == (200, [])
        assert watched.hosts == {urlsplit(url).netloc}


def check_shown(page: Page) -> None:
    """Assert that what a page shows now can be read by everybody, and is not cut."""
    assert not (found := violations(page)), found
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(CUT_BARS) == []
    assert not (cut := page.evaluate(CUT_NAMES)), (page.viewport_size, cut)
    assert page.evaluate(SMALL_TARGETS) == []
    assert page.evaluate(BROKEN_WORDS) == []


def keep(page: Page, picture: Path | None) -> None:
    """Store a picture of a page as it stands, where one is asked for."""
    if picture is None:
        return
    bottom = page.evaluate("Math.ceil(scrollY + document.body.getBoundingClientRect().bottom)")
    page.screenshot(
        path=picture,
        full_page=True,
        clip={
            "x": 0,
            "y": 0,
            "width": page.evaluate("innerWidth"),
            "height": min(bottom, TALLEST),
        },
        animations="disabled",
    )


def without_values(source: str) -> str:
    """A page but for the services that its form holds: sent back, each must be the same name."""
    return VALUES.sub("", source)


def violations(page: Page) -> list[tuple[str, str]]:
    """What axe finds serious on a page, all of which is open."""
    for details in page.locator("details").all():
        details.evaluate("element => { element.open = true; }")
    page.evaluate(AXE.read_text())
    found = cast(
        "list[dict[str, Any]]", page.evaluate(f"axe.run({RULES}).then(found => found.violations)")
    )
    return [
        (one["id"], one["nodes"][0]["html"])
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]
