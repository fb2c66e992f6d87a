"""The list of requests."""

from rich.console import Console

from latencytrace.cli.requests import picture
from tests.cli.documents import request_document


def drawn(console: Console) -> str:
    with console.capture() as captured:
        for part in picture([request_document()], "slowest first", console):
            console.print(part)
    return captured.get()


def test_a_row_says_how_long_where_and_which() -> None:
    row = drawn(Console(width=140, color_system=None)).splitlines()[3].split()

    assert row[:2] == ["100", "ms"]
    assert " ".join(row).startswith(
        "100 ms decode 60.0 %, embed 20.0 % POST /chat ok 30.0 ms 10 1f3c9a0000"
    )


def test_a_narrow_terminal_shows_the_beginning_of_the_trace_id() -> None:
    lines = drawn(Console(width=100, color_system=None)).splitlines()

    assert lines[3].rstrip().endswith(" 1f3c9a000000")
    assert lines[5].rstrip() == "One of them: latencytrace trace 1f3c9a000000"


def test_stages_are_a_bar_in_colour_and_words_without() -> None:
    coloured = drawn(Console(width=140, force_terminal=True, color_system="truecolor"))

    assert "█" in coloured
    assert "█" not in drawn(Console(width=140, color_system=None))
