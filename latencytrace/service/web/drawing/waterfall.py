"""The rows of a waterfall: as columns for a script, which draws those in view, and as bars."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from markupsafe import Markup

from latencytrace.model import Stage
from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import duration
from latencytrace.service.answers.documents import (
    ListedRequestDocument,
    OpenedRequestDocument,
)
from latencytrace.service.answers.traces.waterfall_rows import MARK, Row, Rows, Stretch
from latencytrace.service.web.drawing.bars import WIDTH, number

LONGEST_NAME = 300
HEIGHT = 20
TOP, THICK = 3, 10  # of a bar
PATH_TOP, PATH_THICK = 15, 4  # of the line under it: the critical path


def columns(rows: Rows, whole_ns: int) -> dict[str, object]:
    """All rows as columns; names and services are numbers into a list of them.

    Args:
        rows: In the order of a tree.
        whole_ns: The duration of the request.
    """
    names, stages, services, span_ids, starts_ns, ends_ns, depths = (
        list(map(itemgetter(place), rows.lines)) for place in range(7)
    )
    texts: dict[str, int] = {}

    def places(column: Sequence[str], shown: Callable[[str], str]) -> list[int]:
        known = {text: texts.setdefault(shown(text), len(texts)) for text in dict.fromkeys(column)}
        return [known[text] for text in column]

    named = places(names, shortened)
    for place in rows.inside:
        named[place] = texts.setdefault(MARK + shortened(names[place]), len(texts))
    return {
        "whole": whole_ns,
        "name": named,
        "stage": places(stages, str),
        "service": places(services, lambda text: escaped(text)[:LONGEST_NAME]),
        "texts": list(texts),
        "depth": depths,
        "span": span_ids,
        "start": starts_ns,
        "end": ends_ns,
        "parts": {at: list(chain(*stretches)) for at, stretches in rows.parts.items()},
        "path": {at: list(chain(*stretches)) for at, stretches in rows.paths.items()},
        "notes": {at: " ".join(map(escaped, notes)) for at, notes in rows.notes.items()},
        "failed": sorted(rows.failed),
    }


def name_of(row: Row) -> str:
    """The name of a row, fit to be shown."""
    return row.mark + shortened(row.name)


def shortened(name: str) -> str:
    """A name, fit to be shown."""
    if len(name) <= LONGEST_NAME and name.isascii() and name.isprintable():  # as nearly all are
        return name
    return f"{escaped(name[:LONGEST_NAME])}{'…' * (len(name) > LONGEST_NAME)}"


def row_bar(row: Row, whole_ns: int) -> Markup:
    """When a row ran, and below it when the request waited for it."""
    scale = WIDTH / (whole_ns or 1)
    ran = _path(row.stretches, scale, TOP, THICK)
    held = _path(row.on_path, scale, PATH_TOP, PATH_THICK)
    return Markup(  # noqa: S704 - numbers, and the name of a stage
        f'<svg class="row" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'aria-hidden="true"><path class="s-{_known(row.stage)}" d="{ran}"/>'
        f'<path class="path" d="{held}"/></svg>'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The span that a request waited for longest, and how long."""

    span_id: str
    name: str
    stage: str
    length_ns: int


def held_longest(request: ListedRequestDocument) -> Held | None:
    """The span that held a request up longest; None: no span explains any of its time."""
    lengths: dict[tuple[str, str], int] = {}
    names: dict[str, str] = {}
    for segment in request["segments"]:
        if segment["stage"] != Stage.UNATTRIBUTED:
            place = (segment["span_id"], segment["stage"])
            lengths[place] = lengths.get(place, 0) + segment["end_ns"] - segment["start_ns"]
            names.setdefault(segment["span_id"], segment["name"])
    if not lengths:
        return None
    span_id, stage = max(lengths, key=lambda place: (lengths[place], place))
    return Held(
        span_id=span_id, name=names[span_id], stage=stage, length_ns=lengths[span_id, stage]
    )


def stall_marks(request: OpenedRequestDocument) -> Markup:
    """The first token and the stalls between tokens, over the time of the request."""
    scale = WIDTH / (request["duration_ns"] or 1)
    first_ns = request["time_to_first_token_ns"]
    last = f'<path class="grid" d="M0 {HEIGHT // 2}H{WIDTH}"/>'
    stalls = "".join(
        f'<rect class="stall" x="{number(stall["start_ns"] * scale)}" y="4" height="12" '
        f'width="{number(max(stall["duration_ns"] * scale, 1))}">'
        f"<title>{duration(stall['duration_ns'])}: {escaped(stall['label'])}</title></rect>"
        for stall in request["stalls"] or []
    )
    first = (
        ""
        if first_ns is None
        else f'<path class="first" d="M{number(first_ns * scale)} 0v{HEIGHT}h2v-{HEIGHT}z"/>'
    )
    return Markup(  # noqa: S704 - numbers, and labels that are stages
        f'<svg class="bar tokens" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="The first token and the stalls">{last}{stalls}{first}</svg>'
    )


def _path(stretches: Sequence[Stretch], scale: float, top: int, thick: int) -> str:
    return "".join(
        f"M{number(start * scale)} {top}h{number(max((end - start) * scale, 1.5))}v{thick}"
        f"H{number(start * scale)}z"
        for start, end in stretches
    )


def _known(stage: str) -> str:
    return stage if stage in set(Stage) else Stage.OTHER
