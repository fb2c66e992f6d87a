"""A comparison in the terminal and as Markdown, and the baselines there are."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from latencytrace.analysis.compare.verdict import Verdict
from latencytrace.cli.pictures.fitted_table import FittedTable, bar, stage_style
from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import (
    UNKNOWN,
    chance,
    changed_by,
    duration,
    interval,
    signed,
    size,
)
from latencytrace.service.answers.compare_documents import (
    BaselinesDocument,
    CompareDocument,
    DecileDocument,
    ShiftDocument,
    SideDocument,
)
from latencytrace.service.answers.sentences.compare import (
    LEVELS,
    PROVEN,
    SIDES,
    about_new_spells,
    about_spell,
    at_equal,
    both,
    circumstances,
    is_sure,
    notes,
    relative,
    rows,
    sentence,
    spells_by_side,
)

STYLES: Final = {
    Verdict.REGRESSION: "bold #e5484d",
    Verdict.IMPROVEMENT: "bold #46b450",
    Verdict.NO_CHANGE: "bold",
    Verdict.NOT_ENOUGH_DATA: "bold #f59e0b",
}
SIGNS: Final = {
    Verdict.REGRESSION: "❌",
    Verdict.IMPROVEMENT: "✅",
    Verdict.NO_CHANGE: "✅",
    Verdict.NOT_ENOUGH_DATA: "❔",
}
BAR_CELLS: Final = 16


def picture(document: CompareDocument, sides: tuple[str, str]) -> list[RenderableType]:
    """The stages that shifted, for the terminal."""
    verdict = document["verdict"]
    parts: list[RenderableType] = [
        Text(escaped(sentence(document)), STYLES.get(verdict, "bold")),
        "",
    ]
    parts += [_sides(document, sides), ""]
    whole = document["duration_ns"]
    if whole is not None:
        parts += [Text(at_equal(document), "dim"), _shifts(document), ""]
        parts += [_deciles(document["deciles"], document["at_least_ratio"]), ""]
    met = list(circumstances(document))
    if met:
        parts += [_circumstances(met), ""]
    parts += [Text(spell, "dim") for spell in _spells(document)]
    parts += [Text(note, "dim") for note in notes(document)]
    return parts


def markdown(document: CompareDocument, sides: tuple[str, str]) -> str:
    """The stages that shifted, for a pull request or a job's summary."""
    sign = SIGNS.get(document["verdict"], "")
    lines = [
        f"### {sign} {escaped(sentence(document))}",
        "",
        "| side | cohort | requests | p50 | p95 | p99 |",
    ]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: |")
    for name, side, written in zip(SIDES, both(document), sides, strict=True):
        shown = escaped(written).replace("|", "\\|").replace("`", "'") or "the last hour"
        cells = [f"{side['requests']:,}", *_plain(side)]
        lines.append(f"| {name} | `{shown}` | {' | '.join(cells)} |")
    if document["duration_ns"] is not None:
        lines += ["", f"{at_equal(document)}:", ""]
        lines.append("| of | | before | after | shift | 95 % interval | p |")
        lines.append("| --- | --- | ---: | ---: | ---: | :---: | ---: |")
        for name, level, shift in rows(document):
            sure = "**" if is_sure(shift) else ""
            cells = _cells(shift)
            cells[2] = f"{sure}{cells[2]}{sure}"
            lines.append(f"| {name} | {level} | {' | '.join(cells)} |")
    met = list(circumstances(document))
    if met:
        lines += ["", "| mean of a request | before | after |", "| --- | ---: | ---: |"]
        lines += [f"| {' | '.join(row)} |" for row in met]
    lines += [f"\n{note}" for note in (*_spells(document), *notes(document))]
    return "\n".join(lines)


def baselines(document: BaselinesDocument) -> RenderableType:
    if not document["baselines"]:
        return "No baseline is saved. Save one with `latencytrace compare COHORT --save NAME`."
    drawn = FittedTable(
        *("name", "cohort", "requests", "saved", "size"),
        left=("name", "cohort"),
        name="cohort",
        leave_out=("size", "saved"),
    )
    for one in document["baselines"]:
        saved = datetime.fromtimestamp(int(one["saved"]) // 10**9, UTC)
        drawn.add_row(
            one["name"],
            one["cohort"] or "the hour before",
            f"{one['requests']:,}",
            f"{saved:%Y-%m-%d %H:%M} UTC",
            size(one["bytes"]),
        )
    return drawn


def _spells(document: CompareDocument) -> list[str]:
    lines = [
        about_spell(name, spell) for name, found in spells_by_side(document) for spell in found
    ]
    return [*lines, *about_new_spells(document)]


def _plain(side: SideDocument) -> list[str]:
    plain = side["duration_ns"]
    if plain is None:
        return [UNKNOWN] * len(LEVELS)
    return [duration(plain["p50"]), duration(plain["p95"]), duration(plain["p99"])]


def _sides(document: CompareDocument, sides: tuple[str, str]) -> FittedTable:
    drawn = FittedTable(
        *("side", "raw", "requests", *LEVELS),
        left=("side", "raw"),
        name="raw",
        leave_out=(),
    )
    for name, side, written in zip(SIDES, both(document), sides, strict=True):
        requests = f"{side['requests']:,}"
        drawn.add_row(name, written or "the last hour", requests, *_plain(side))
    return drawn


def _shifts(document: CompareDocument) -> FittedTable:
    drawn = FittedTable(
        *("of", "", *SIDES, "shift", "95 % interval", "p"),
        left=("of", "", "95 % interval"),
        name="of",
        leave_out=("p", "95 % interval", *SIDES),
    )
    stages = {row["stage"]: row["verdict"] for row in document["stages"]}
    for name, level, shift in rows(document):
        verdict = stages.get(name, document["verdict"])  # type: ignore[call-overload] # a name
        style = STYLES[verdict] if verdict in PROVEN and level == LEVELS[0] else ""
        shown = Text(name if level == LEVELS[0] else "", style)
        drawn.add_row(shown, level, *_cells(shift))
    return drawn


def _circumstances(met: Sequence[tuple[str, str, str]]) -> FittedTable:
    mean = "mean of a request"
    drawn = FittedTable(mean, *SIDES, left=(mean,), name=mean, leave_out=())
    for row in met:
        drawn.add_row(*row)
    return drawn


def _cells(shift: ShiftDocument) -> list[str]:
    ratio = relative(shift)
    percent = "" if ratio is None else f" ({changed_by(ratio)})"
    return [
        duration(shift["a"]),
        duration(shift["b"]),
        f"{signed(shift['shift'], '+')}{percent}",
        interval(shift["low"], shift["high"], "+"),
        chance(shift["p_value"]),
    ]


def _deciles(deciles: Sequence[DecileDocument], at_least_ratio: float) -> FittedTable:
    """The shift of each decile as a bar; shifts that are too small to count are short ones."""
    ratios = [one["shift"] / one["a"] if one["a"] else 0.0 for one in deciles]
    longest = max([*map(abs, ratios), at_least_ratio]) or 1.0
    ways = {"faster": stage_style("retrieve"), "slower": stage_style("queue")}
    drawn = FittedTable(
        *("decile", *ways, "shift", "95 % interval"),
        left=("slower",),
        name="decile",
        leave_out=(*ways, "95 % interval"),
    )
    for one, ratio in zip(deciles, ratios, strict=True):
        way = "faster" if ratio < 0 else "slower"
        drawn_bar = bar(abs(ratio) / longest, BAR_CELLS)
        drawn.add_row(
            f"p{round(100 * one['quantile'])}",
            *(Text(drawn_bar if each == way else "", style) for each, style in ways.items()),
            f"{signed(one['shift'], '+')} ({changed_by(ratio)})",
            interval(one["low"], one["high"], "+"),
        )
    return drawn
