"""Latency against load: levels of concurrency, the knee, and what takes longer beyond it."""

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from latencytrace.cli.pictures.fitted_table import Bar, FittedTable, bar, stage_bar
from latencytrace.model.texts.units import count, duration, figure, interval, per_s, share, signed
from latencytrace.service.answers.load.capacity_documents import (
    CapacityDocument,
    GrowthDocument,
    LevelDocument,
)
from latencytrace.service.answers.load.sentence import (
    limit_text,
    load_texts,
    range_text,
    replicas_text,
)
from latencytrace.service.answers.sentences.weights import recorded_note

BAR_SHORTEST, BAR_LONGEST = 6, 32
BAR_STYLE = "#3e9fe6"
KNEE_STYLE = "bold"
PICTURE = "p95"


def picture(document: CapacityDocument, console: Console) -> list[RenderableType]:
    """The picture of at least one request."""
    parts: list[RenderableType] = [Text(_numbers(document))]
    parts += [*(Text(note) for note in recorded_note(document)), ""]
    parts += [Text(document["sentence"], "bold"), ""]
    needed = replicas_text(document.get("replicas"))  # an older service says nothing of them
    parts += [Text(needed), ""] if needed else []
    if document["levels"]:
        parts += [_levels(document, console.width), ""]
    parts += [Text(line) for line in _goodput(document)]
    if document["growth"]:
        parts += [_growth(document["growth"], console.width), ""]
    return parts


def _numbers(document: CapacityDocument) -> str:
    facts = [count(document["requests"], "request")]
    if document["concurrency"] is not None:
        most = document["max_concurrency"]
        at_most = "" if most is None else f", at most {most}"
        facts += [
            f"{per_s(document['requests_per_second'])} over {duration(document['counted_ns'])}",
            f"{figure(document['concurrency'])} concurrent{at_most}",
        ]
    return " · ".join(facts)


def _levels(document: CapacityDocument, width: int) -> RenderableType:
    drawn = FittedTable(
        *("concurrency", "time", "throughput", "goodput", "p50", PICTURE, ""),
        left=("concurrency", ""),
        bar="",
        bar_cells=(BAR_SHORTEST, BAR_LONGEST),
        name="concurrency",
        leave_out=("", "time"),
    )
    longest = max((row["p95_ns"] or 0 for row in document["levels"]), default=0) or 1
    for row in document["levels"]:
        drawn.add_row(
            range_text(row["concurrency"], row["concurrency_to"]),
            share(row["time_share_ratio"]),
            per_s(row["served_per_second"]),
            per_s(row["good_per_second"]),
            duration(row["p50_ns"]),
            duration(row["p95_ns"]),
            _bar_of((row["p95_ns"] or 0) / longest),
            style=KNEE_STYLE if _is_knee(document, row) else None,
        )
    return drawn.drawn(width)


def _bar_of(ratio: float) -> Bar:
    return lambda cells: Text(bar(ratio, cells), BAR_STYLE)


def _is_knee(document: CapacityDocument, row: LevelDocument) -> bool:
    found = document["knee"]
    within = row["concurrency"], row["concurrency_to"] + 1
    return found is not None and within[0] <= found["concurrency"] < within[1]


def _goodput(document: CapacityDocument) -> Iterator[str]:
    found = document["goodput"]
    if found is None:
        return
    best = ""
    if found["best_per_second"] is not None:
        rate = per_s(found["best_per_second"])
        best = f"; best {rate}, at {found['best_concurrency']} concurrent"
    yield (
        f"Goodput: {per_s(found['per_second'])}, {share(found['good_ratio'])} of all{best}. "
        f"Good is {'; '.join(map(limit_text, found['limits']))}."
    )
    yield ""


def _growth(document: GrowthDocument, width: int) -> RenderableType:
    few, many = load_texts(document)
    drawn = FittedTable(
        *("stage", "", "growth", "95 % interval", few, many),
        left=("stage", ""),
        bar="",
        bar_cells=(BAR_SHORTEST, BAR_LONGEST),
        name="stage",
        leave_out=("", "95 % interval"),
    )
    longest = max((abs(row["growth_ns"]) for row in document["stages"]), default=0) or 1
    for row in document["stages"]:
        drawn.add_row(
            row["stage"],
            stage_bar(max(row["growth_ns"], 0) / longest, row["stage"]),
            signed(row["growth_ns"]),
            interval(row["low_ns"], row["high_ns"]),
            duration(row["calm_mean_ns"]),
            duration(row["crowded_mean_ns"]),
        )
    return drawn.drawn(width)
