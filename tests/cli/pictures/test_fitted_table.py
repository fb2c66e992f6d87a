"""Tables in terminals of any width."""

from rich.cells import cell_len
from rich.console import Console

from latencytrace.cli.pictures.fitted_table import FittedTable, stage_bar
from latencytrace.cli.pictures.terminal import fit
from tests.support.over_all import over_all


def lines(width: int, name: str = "unattributed", share: str = "71.2 %") -> list[str]:
    made = FittedTable(
        *("stage", "", "mean", "share", "requests"),
        left=("stage", ""),
        bar="",
        bar_cells=(4, 20),
        name="stage",
        leave_out=("", "requests", "share"),
    )
    made.add_row(name, stage_bar(1.0, "decode"), "10.0 ms", share, "4")
    made.add_row("decode", stage_bar(0.5, "decode"), "5.00 ms", "35.6 %", "4")
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(fit(made.drawn(width)))
    return captured.get().splitlines()


@over_all("width", range(24, 120))
def test_no_number_is_cut_and_no_line_is_too_long(width: int) -> None:
    shown = lines(width)

    assert max(map(cell_len, shown)) <= width
    assert "10.0 ms" in shown[1]
    assert "unattributed" in shown[1]


def test_bars_are_as_long_as_there_is_room_and_no_longer() -> None:
    cells = {width: lines(width)[1].count("█") for width in (40, 45, 50, 60, 61, 90)}

    assert cells == {40: 0, 45: 4, 50: 9, 60: 19, 61: 20, 90: 20}


def test_gaps_get_narrower_before_a_column_is_left_out() -> None:
    narrow, narrower = (lines(width)[2] for width in (41, 40))

    assert narrow == "decode       ██   5.00 ms 35.6 %        4"
    assert narrower == "decode        5.00 ms  35.6 %         4"


def test_columns_are_left_out_in_their_order() -> None:
    headings = [lines(width)[0].split() for width in (50, 42, 30, 24)]

    assert headings == [
        ["stage", "mean", "share", "requests"],
        ["stage", "mean", "share", "requests"],
        ["stage", "mean", "share"],
        ["stage", "mean"],
    ]


def test_a_name_that_is_too_long_is_cut_and_nothing_else() -> None:
    row = lines(50, name="POST /v1/chat/completions of a long name")[1]

    assert "…" in row.split("█")[0]
    assert row.endswith("71.2 %         4")


def test_names_that_steer_a_terminal_are_measured_as_they_are_shown() -> None:
    shown = lines(60, name="\x1b[2J" * 5)

    assert "\x1b" not in "".join(shown)
    assert max(map(cell_len, shown)) <= 60
