"""A picture that is drawn anew."""

import io
import sys

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from latencytrace.cli.pictures.terminal import watch


class Watched:
    """Somebody who looks at some pictures and then ends it."""

    def __init__(self, pictures: int) -> None:
        self._left = pictures
        self.slept: list[float] = []
        self.drawn = 0

    def picture(self) -> list[RenderableType]:
        """The next one."""
        self.drawn += 1
        return [Text(f"picture {self.drawn}")]

    def sleep(self, seconds: float) -> None:
        """Look at it, or press Ctrl-C."""
        self.slept.append(seconds)
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt


def test_it_is_drawn_again_until_somebody_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    file = io.StringIO()
    watched = Watched(3)

    watch(watched.picture, Console(file=file, force_terminal=True), 2.0, watched.sleep)

    assert watched.slept == [2.0, 2.0, 2.0]
    assert all(f"picture {number}" in file.getvalue() for number in (1, 2, 3))


def test_it_is_printed_once_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched(3)

    watch(watched.picture, Console(), 2.0, watched.sleep)

    assert (watched.drawn, watched.slept) == (1, [])
    assert "picture 1" in capsys.readouterr().out
