"""Texts are shown with whatever acts on a terminal spelled out, in the widths they have."""

import io
import json
import logging
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from latencytrace.cli.pictures.fitted_table import table
from latencytrace.cli.pictures.terminal import LogFormatter, Screen, fit, json_text, show
from latencytrace.model.texts.escaped import escaped, escaped_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("日本語 🙂 é", "日本語 🙂 é"),
        ("\x1b]0;x\x07", "\\x1b]0;x\\x07"),
        ("a\nb\rc\td", "a\\nb\\rc\\td"),
        ("\x7f\x80\x9b\x9f", "\\x7f\\x80\\x9b\\x9f"),
        ("\u202e\u2066\u200b\u2028\u2029\ufeff", "\\u202e\\u2066\\u200b\\u2028\\u2029\\ufeff"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("[red]", "[red]"),
    ],
)
def test_what_acts_is_spelled_out(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_no_color_leaves_out_what_only_colours_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Screen().color_system is not None

    monkeypatch.setenv("NO_COLOR", "1")
    assert Screen().color_system is None


@given(st.text())
def test_nothing_that_acts_is_left(text: str) -> None:
    kinds = {unicodedata.category(character) for character in escaped(text)}

    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    assert escaped(escaped(text)) == escaped(text)
    assert escaped_lines(text).count("\n") == text.count("\n")


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"])))
def test_json_means_the_same(text: str) -> None:
    written = json_text({"name": text})

    assert json.loads(written) == {"name": text}
    assert escaped_lines(written) == written


@given(st.text())
def test_a_text_keeps_its_styles_where_they_were(text: str) -> None:
    shown = fit(Text.assemble("a ", (text, "red"), " b"))

    assert isinstance(shown, Text)
    kept = Text(text).plain  # rich drops some of the controls by itself
    assert shown.plain == f"a {escaped(kept)} b"
    if kept:
        [span] = shown.spans
        assert shown.plain[span.start : span.end] == escaped(kept)


def test_a_table_stays_in_line_whatever_its_cells_hold() -> None:
    drawn = table("name", "took", left=("name",))
    for name in ("plain", "日本語🙂", "a\x1b[2Jb\u202e", "two\nlines", "[red]x"):
        drawn.add_row(name, "5 ms")
    console = Console(width=60, file=io.StringIO())
    with console.capture() as captured:
        console.print(fit(drawn))

    lines = captured.get().splitlines()
    assert len(lines) == 6
    assert len({cell_len(line.rstrip()) for line in lines}) == 1


def test_whatever_was_not_made_fit_is_so_when_it_is_drawn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Sly:
        def __rich_console__(self, *_: object) -> list[Text]:
            return [Text("\x1b]0;x"), Text("\u202e")]

    show(Screen(width=40), Sly())

    assert capsys.readouterr().out == "\\x1b]0;x\n\\u202e\n"


def test_styles_and_links_are_ours_alone(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen(width=60), "[link=http://evil.example]x[/link] :smile:", Text("[b]y"))

    assert capsys.readouterr().out == "[link=http://evil.example]x[/link] :smile:\n[b]y\n"


def test_a_line_of_the_log_is_spelled_out() -> None:
    record = logging.LogRecord("a", logging.INFO, "", 0, "got %s", ("\x1b[2J\u202e",), None)

    assert LogFormatter("%(levelname)s %(message)s").format(record) == "INFO got \\x1b[2J\\u202e"
