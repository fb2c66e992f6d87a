"""The tail against the requests around the median: the cause, the stages, what sets it apart."""

import math
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from latencytrace.cli.pictures.fitted_table import FittedTable, stage_bar
from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import chance, count, duration, interval, share, signed
from latencytrace.service.answers.sentences.tail import beside, next_step, sentence, trait_text
from latencytrace.service.answers.sentences.weights import recorded_note
from latencytrace.service.answers.tail_documents import TailDocument

BAR_SHORTEST, BAR_LONGEST = 4, 32
MOST_ATTRIBUTES = 8
MEDIAN = 50
LEAST_SHARE = 0.005  # of the excess: stages with less are not shown


def picture(document: TailDocument, console: Console) -> list[RenderableType]:
    parts: list[RenderableType] = [Text(_numbers(document))]
    parts += [*(Text(note) for note in recorded_note(document)), ""]
    parts += [Text(_verdict(document), "bold")]
    advice = next_step(document)
    parts += [*([Text(advice)] if advice else []), ""]
    if document["stages"]:
        parts += [_stages(document, console.width), ""]
    if document["attributes"]:
        parts += [_attributes(document), ""]
    neighbours = document.get("neighbours")  # an older service has none
    if neighbours and neighbours["tail_mean_ns"]:
        parts += [Text(escaped(beside(neighbours))), ""]
    return [*parts, *_examples(document)]


def _numbers(document: TailDocument) -> str:
    beyond = f"{document['tail_requests']:,} beyond p{100 * document['quantile']:g}"
    facts = [
        count(document["requests"], "request"),
        f"tail: {beyond} (from {duration(document['threshold_ns'])})",
    ]
    if document["excess_ns"] is not None:
        usual = f"the {document['reference_requests']:,} around the median"
        facts.append(f"{signed(document['excess_ns'])} longer than {usual}")
    return " · ".join(facts)


def _verdict(document: TailDocument) -> str:
    said = escaped(sentence(document))
    if document["needed_requests"] is None:
        return said
    lower = _enough_for(document)
    return f"{said} Take a longer time (--since){f', or --quantile {lower:g}' if lower else ''}."


def _enough_for(document: TailDocument) -> float | None:
    """The highest quantile, in percent, with a large enough tail; None: below the median."""
    slow = (document["needed_requests"] or 0) * (1 - document["quantile"])
    percent = math.floor(100 * (1 - slow / max(document["requests"], 1)) + 1e-9)
    return percent / 100 if percent > MEDIAN else None


def _stages(document: TailDocument, width: int) -> RenderableType:
    drawn = FittedTable(
        *("stage", "", "excess", "share", "95 % interval", "tail", "usual"),
        left=("stage", ""),
        bar="",
        bar_cells=(BAR_SHORTEST, BAR_LONGEST),
        name="stage",
        leave_out=("", "95 % interval", "usual", "tail"),
    )
    rows = document["stages"]
    shown = [row for row in rows if abs(row["excess_share_ratio"] or 0) >= LEAST_SHARE] or rows
    longest = max((abs(row["excess_ns"]) for row in shown), default=0) or 1
    for row in shown:
        drawn.add_row(
            row["stage"],
            stage_bar(max(row["excess_ns"], 0) / longest, row["stage"]),
            signed(row["excess_ns"]),
            share(row["excess_share_ratio"]),
            interval(row["low_ns"], row["high_ns"]),
            duration(row["tail_mean_ns"]),
            duration(row["reference_mean_ns"]),
        )
    return drawn.drawn(width)


def _attributes(document: TailDocument) -> RenderableType:
    often = "in the tail more often"
    drawn = FittedTable(often, "tail", "usual", "p", left=(often,), name=often, leave_out=("p",))
    for row in document["attributes"][:MOST_ATTRIBUTES]:
        drawn.add_row(
            trait_text(row["key"], row["value"]),
            share(row["tail_share_ratio"]),
            share(row["reference_share_ratio"]),
            chance(row["p_value"]),
        )
    return drawn


def _examples(document: TailDocument) -> Iterator[RenderableType]:
    if document["examples"]:
        yield Text("Requests that show it:", "dim")
    for trace_id in document["examples"]:
        yield Text(f"  latencytrace trace {trace_id}", "dim")
