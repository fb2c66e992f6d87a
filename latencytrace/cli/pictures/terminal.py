"""The way out to the terminal: pictures and documents go through here, lines through `lines`.

Names of spans, routes and services are what senders sent. They are shown with control
characters, escape sequences and invisible characters spelled out, and are never markup.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Span, Text

from latencytrace.cli.pictures.lines import encodable
from latencytrace.model.texts.escaped import escaped, escaped_json, escaped_lines, is_fit


def watch(
    picture: Callable[[], Sequence[RenderableType]],
    console: Console,
    every_s: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Draw a picture again and again; once where the output is no terminal."""
    if not sys.stdout.isatty():
        show(console, *picture())
        return
    try:
        with Live(console=console, auto_refresh=False, screen=True) as live:
            while True:
                live.update(fit(Group(*picture(), Text("Ctrl-C ends.", "dim"))), refresh=True)
                sleep(every_s)
    except KeyboardInterrupt:
        return


PIPED_WIDTH = 140  # nothing is cut off outside a terminal


class Screen(Console):
    """A console on which no text acts: rich passes escape sequences on as they are."""

    def __init__(
        self, *, stderr: bool = False, width: int | None = None, plain: bool = False
    ) -> None:
        super().__init__(
            width=width,
            stderr=stderr,
            highlight=False,
            emoji=False,
            markup=False,
            color_system=None if plain else "auto",
            force_jupyter=False,  # it would show what is captured
        )

    @property
    def color_system(self) -> str | None:
        """The colours of the terminal; none with NO_COLOR: bars of one colour say nothing."""
        return None if self.no_color else super().color_system

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render, and escape what `fit` did not see."""
        for segment in super().render(renderable, options):
            if segment.control:  # rich's own, such as the cursor's
                yield segment
            else:
                yield Segment(escaped_lines(segment.text), segment.style)

    def print(self, *objects: object, **settings: object) -> None:
        """Print; each text is one line."""
        shown = [fit(part) if isinstance(part, _TEXTS) else part for part in objects]
        super().print(*shown, **settings)  # type: ignore[arg-type] # rich's own


def screen() -> Screen:
    """The way for pictures: as wide as the terminal, plain and wide enough when piped."""
    return Screen(width=None if sys.stdout.isatty() else PIPED_WIDTH)


def side_screen() -> Screen:
    """The way for progress: standard error."""
    return Screen(stderr=True)


def show(console: Console, *parts: RenderableType) -> None:
    """Print parts one below the other, with nothing at the ends of lines."""
    print(encodable(drawn(console, *parts), sys.stdout))


def drawn(console: Console, *parts: RenderableType) -> str:
    """The text that `show` prints."""
    with console.capture() as captured:
        for part in parts:
            console.print(fit(part) if isinstance(part, _TEXTS) else part)
    lines = (line.rstrip() for line in captured.get().split("\n"))
    return "\n".join(lines).removesuffix("\n")


def say_document(document: object) -> None:
    """Print the API's document, unchanged but for its white space and its spelling."""
    print(encodable(json_text(document), sys.stdout))


def json_text(document: object) -> str:
    """A document as JSON, with nothing in it that acts on a terminal."""
    return escaped_json(json.dumps(document, indent=2, ensure_ascii=False))


def write_out(body: bytes) -> None:
    """Write a file to standard output: as it is, but spelled out on a terminal."""
    if sys.stdout.isatty():
        text = body.decode(errors="backslashreplace")
        body = escaped_lines(text.replace("\r\n", "\n")).encode(errors="backslashreplace")
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()


def fit(part: RenderableType) -> RenderableType:
    """The same to look at, with nothing in it that acts; done before it is laid out."""
    if isinstance(part, str):
        return escaped(part)
    if isinstance(part, Text):
        return _fit_text(part)
    if isinstance(part, Table):
        for column in part.columns:
            column.header = fit(column.header)
            column._cells[:] = [fit(cell) for cell in column._cells]  # noqa: SLF001 - rich has no other way
    if isinstance(part, Group):
        return Group(*map(fit, part.renderables))
    return part


class LogFormatter(logging.Formatter):
    """Lines of the service's log, which quote what senders send."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped_lines(super().format(record))


_TEXTS = (str, Text, Table, Group)


def _fit_text(text: Text) -> Text:
    plain = text.plain
    if all(map(is_fit, plain)):
        return text
    places = list(_places(plain))  # of each old character, and of the end
    shown = text.copy()
    shown.plain = escaped(plain)
    shown.spans = [
        Span(places[one.start], places[min(one.end, len(plain))], one.style) for one in text.spans
    ]
    return shown


def _places(plain: str) -> Iterator[int]:
    at = 0
    for character in plain:
        yield at
        at += len(escaped(character))
    yield at
