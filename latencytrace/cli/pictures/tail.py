"""The tail against the requests around the median: the cause, the stages, what sets it apart."""

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from latencytrace.cli.pictures.bars import table
from latencytrace.cli.pictures.fitted_table import FittedTable, stage_bar
from latencytrace.model.texts.units import count, duration, share
from latencytrace.service.answers.tail_documents import StageExcessDocument, TailDocument

BAR_SHORTEST, BAR_LONGEST = 4, 32
MOST_ATTRIBUTES = 8
LEAST_SHARE = 0.005  # of the excess: stages with less are not shown
SURE = 0.001  # smaller p-values are not distinguished
NOTHING = (
    "Nothing sets the tail apart: no attribute, and no stage that takes longer than its usual "
    "spread explains."
)


def picture(document: TailDocument, console: Console) -> list[RenderableType]:
    """The picture of the tail of at least one request."""
    parts: list[RenderableType] = [Text(_numbers(document)), ""]
    parts += [Text(_verdict(document), "bold"), ""]
    if document["stages"]:
        parts += [_stages(document, console.width), ""]
    if document["attributes"]:
        parts += [_attributes(document), ""]
    return [*parts, *_examples(document)]


def _numbers(document: TailDocument) -> str:
    begins = f"p{100 * document['quantile']:g} ({duration(document['threshold_ns'])})"
    facts = [
        count(document["requests"], "request"),
        f"tail: {document['tail_requests']:,} from {begins} on",
    ]
    if document["excess_ns"] is not None:
        usual = f"the {document['reference_requests']:,} around the median"
        facts.append(f"{_signed(document['excess_ns'])} longer than {usual}")
    return " · ".join(facts)


def _verdict(document: TailDocument) -> str:
    if document["needed_requests"] is not None:
        return (
            f"Not enough requests to name a cause: {document['requests']:,} of at least "
            f"{document['needed_requests']:,}. Take a longer time (--since) or a lower --quantile."
        )
    cause = document["cause"]
    return cause["sentence"] if cause else NOTHING


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
            _signed(row["excess_ns"]),
            share(row["excess_share_ratio"]),
            _interval(row),
            duration(row["tail_mean_ns"]),
            duration(row["reference_mean_ns"]),
        )
    return drawn.drawn(width)


def _signed(length_ns: int) -> str:
    return f"-{duration(-length_ns)}" if length_ns < 0 else duration(length_ns)


def _interval(row: StageExcessDocument) -> str:
    return f"{_signed(row['low_ns'])} … {_signed(row['high_ns'])}"


def _attributes(document: TailDocument) -> RenderableType:
    drawn = table("in the tail more often", "tail", "usual", "p", left=("in the tail more often",))
    for row in document["attributes"][:MOST_ATTRIBUTES]:
        drawn.add_row(
            f"{row['key']} {row['value']}",
            share(row["tail_share_ratio"]),
            share(row["reference_share_ratio"]),
            f"< {SURE}" if row["p_value"] < SURE else f"{row['p_value']:.3f}",
        )
    return drawn


def _examples(document: TailDocument) -> Iterator[RenderableType]:
    if document["examples"]:
        yield Text("Requests that show it:", "dim")
    for trace_id in document["examples"]:
        yield Text(f"  latencytrace trace {trace_id}", "dim")
