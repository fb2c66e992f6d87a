"""A comparison in the terminal and as Markdown, and the baselines there are."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from latencytrace.analysis.compare.verdict import Verdict
from latencytrace.cli.pictures.bars import bar, stage_style, table
from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import UNKNOWN, duration, share, signed
from latencytrace.service.answers.compare_documents import (
    BaselinesDocument,
    CompareDocument,
    DecileDocument,
    ShiftDocument,
    SideDocument,
)

LEVELS: Final = ("p50", "p95", "p99")
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
PROVEN: Final = (Verdict.REGRESSION, Verdict.IMPROVEMENT)
SURE: Final = 0.05
BAR_CELLS: Final = 16
LEAST_P: Final = 0.001  # smaller ones are written alike


def picture(document: CompareDocument, sides: tuple[str, str]) -> list[RenderableType]:
    """What shifted, for the terminal."""
    verdict = document["verdict"]
    parts: list[RenderableType] = [Text(sentence(document), STYLES.get(verdict, "bold")), ""]
    parts += [_sides(document, sides), ""]
    whole = document["duration_ns"]
    if whole is not None:
        parts += [Text(_at_equal(document), "dim"), _shifts(document), ""]
        parts += [_deciles(document["deciles"], document["at_least_ratio"]), ""]
    parts += [Text(note, "dim") for note in notes(document)]
    return parts


def markdown(document: CompareDocument, sides: tuple[str, str]) -> str:
    """What shifted, for a pull request or a job's summary."""
    sign = SIGNS.get(document["verdict"], "")
    lines = [f"### {sign} {sentence(document)}", "", "| | cohort | requests | p50 | p95 | p99 |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: |")
    for letter, side, written in zip("AB", _both(document), sides, strict=True):
        shown = escaped(written).replace("|", "\\|").replace("`", "'") or "the last hour"
        cells = [f"{side['requests']:,}", *_plain(side)]
        lines.append(f"| {letter} | `{shown}` | {' | '.join(cells)} |")
    if document["duration_ns"] is not None:
        lines += ["", f"{_at_equal(document)}:", ""]
        lines.append("| | | A | B | shift | 95 % interval | p |")
        lines.append("| --- | --- | ---: | ---: | ---: | :---: | ---: |")
        for name, level, shift in _rows(document):
            sure = "**" if shift["p_value"] is not None and shift["p_value"] <= SURE else ""
            cells = _cells(shift)
            cells[2] = f"{sure}{cells[2]}{sure}"
            lines.append(f"| {name} | {level} | {' | '.join(cells)} |")
    lines += [f"\n{note}" for note in notes(document)]
    return "\n".join(lines)


def baselines(document: BaselinesDocument) -> RenderableType:
    """The baselines that are saved."""
    if not document["baselines"]:
        return "No baseline is saved. Save one with `latencytrace compare COHORT --save NAME`."
    drawn = table("name", "cohort", "requests", "saved", "size", left=("name", "cohort"))
    for one in document["baselines"]:
        saved = datetime.fromtimestamp(int(one["saved"]) // 10**9, UTC)
        drawn.add_row(
            one["name"],
            one["cohort"] or "the hour before",
            f"{one['requests']:,}",
            f"{saved:%Y-%m-%d %H:%M} UTC",
            f"{one['bytes'] / 2**20:.1f} MiB",
        )
    return drawn


def sentence(document: CompareDocument) -> str:
    """The verdict in one sentence."""
    verdict = document["verdict"]
    if verdict in PROVEN:
        return _proven(document, verdict)
    if verdict == Verdict.NO_CHANGE:
        least = share(document["at_least_ratio"])
        return f"No change: no shift of {least} or more is proven, and the median is sure."
    if document["unmatched"] is not None:
        what = document["unmatched"].replace("_", " ")
        return f"Not enough data: A and B have too few requests of the same {what}."
    needed = document["needed_requests"]
    more = f": it takes about {needed:,} requests of each side" if needed else ""
    return f"Not enough data{more}."


def notes(document: CompareDocument) -> Iterator[str]:
    """What a reader should know beside the numbers."""
    failed = [side["failed_ratio"] for side in _both(document)]
    if any(failed):
        shares = " and ".join(share(ratio) for ratio in failed)
        yield f"Left out: {shares} of the requests, which failed or were rejected."
    whole = document["duration_ns"]
    if whole is not None:
        untested = [level for level in LEVELS if _of(whole, level)["p_value"] is None]
        if untested:
            yield f"Too few requests to test {' and '.join(untested)}."
    longest = max(document["block_requests"])
    if whole is not None and longest > 1:
        yield f"Up to {longest:,} neighbouring requests are taken as one block."


def _proven(document: CompareDocument, verdict: Verdict) -> str:
    """Which shift is the verdict's: end to end, else of a stage; and which stage it is of."""
    slower = verdict == Verdict.REGRESSION
    word = "Regression" if slower else "Improvement"
    named = [row["stage"] for row in document["stages"] if row["verdict"] == verdict]
    where = f", in {' and '.join(named[:2])}" if named else ""
    whole = document["duration_ns"]
    for level in LEVELS if whole is not None else ():
        shift = _of(whole, level)
        is_sure = shift["p_value"] is not None and shift["p_value"] <= SURE
        if is_sure and (shift["shift"] > 0) is slower and _ratio(shift) is not None:
            by = share(abs(_ratio(shift) or 0.0))
            return f"{word}: {level} is {by} {'slower' if slower else 'faster'}{where}."
    return f"{word}{where}."


def _both(document: CompareDocument) -> tuple[SideDocument, SideDocument]:
    return document["a"], document["b"]


def _plain(side: SideDocument) -> list[str]:
    plain = side["duration_ns"]
    if plain is None:
        return [UNKNOWN] * len(LEVELS)
    return [duration(plain["p50"]), duration(plain["p95"]), duration(plain["p99"])]


def _sides(document: CompareDocument, sides: tuple[str, str]) -> Table:
    drawn = table("", "as they were", "requests", *LEVELS, left=("", "as they were"))
    for letter, side, written in zip("AB", _both(document), sides, strict=True):
        requests = f"{side['requests']:,}"
        drawn.add_row(letter, written or "the last hour", requests, *_plain(side))
    return drawn


def _at_equal(document: CompareDocument) -> str:
    names = [name.replace("_", " ") for name in document["matched_on"]]
    if not names:
        return "As they were, for nothing is known to match on"
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"At equal {listed}"


def _shifts(document: CompareDocument) -> Table:
    drawn = table("", "", "A", "B", "shift", "95 % interval", "p", left=("", "95 % interval"))
    stages = {row["stage"]: row["verdict"] for row in document["stages"]}
    for name, level, shift in _rows(document):
        verdict = stages.get(name, document["verdict"])  # type: ignore[call-overload] # a name
        style = STYLES[verdict] if verdict in PROVEN and level == LEVELS[0] else ""
        shown = Text(name if level == LEVELS[0] else "", style)
        drawn.add_row(shown, level, *_cells(shift))
    return drawn


def _rows(document: CompareDocument) -> Iterator[tuple[str, str, ShiftDocument]]:
    """Each row of the table: end to end, then the stages."""
    whole = document["duration_ns"]
    if whole is None:
        return
    for level in LEVELS:
        yield "end to end", level, _of(whole, level)
    for row in document["stages"]:
        for level in LEVELS:
            shift = _of(row, level)
            if shift["a"] or shift["b"]:
                yield row["stage"], level, shift


def _of(shifts: object, level: str) -> ShiftDocument:
    found: ShiftDocument = shifts[level]  # type: ignore[index] # a document with these keys
    return found


def _cells(shift: ShiftDocument) -> list[str]:
    ratio = _ratio(shift)
    percent = "" if ratio is None else f" ({100 * ratio:+.1f} %)"
    return [
        duration(shift["a"]),
        duration(shift["b"]),
        f"{signed(shift['shift'], '+')}{percent}",
        f"{signed(shift['low'], '+')} … {signed(shift['high'], '+')}",
        _chance(shift["p_value"]),
    ]


def _ratio(shift: ShiftDocument) -> float | None:
    return shift["shift"] / shift["a"] if shift["a"] else None


def _chance(p_value: float | None) -> str:
    if p_value is None:
        return UNKNOWN
    return f"<{LEAST_P}" if p_value < LEAST_P else f"{p_value:.3f}"


def _deciles(deciles: Sequence[DecileDocument], at_least_ratio: float) -> Table:
    """The shift of each decile as a bar; shifts that are too small to count are short ones."""
    ratios = [one["shift"] / one["a"] if one["a"] else 0.0 for one in deciles]
    longest = max([*map(abs, ratios), at_least_ratio]) or 1.0
    drawn = table("decile", "faster", "slower", "shift", "95 % interval", left=("slower",))
    for one, ratio in zip(deciles, ratios, strict=True):
        drawn_bar = bar(abs(ratio) / longest, BAR_CELLS)
        drawn.add_row(
            f"p{round(100 * one['quantile'])}",
            Text(drawn_bar if ratio < 0 else "", stage_style("retrieve")),
            Text(drawn_bar if ratio >= 0 else "", stage_style("queue")),
            f"{signed(one['shift'], '+')} ({100 * ratio:+.1f} %)",
            f"{signed(one['low'], '+')} … {signed(one['high'], '+')}",
        )
    return drawn
