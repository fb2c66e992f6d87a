"""The files of a page: its tables as CSV, its pictures as SVG that need no style sheet."""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

import orjson
from fastapi.responses import Response
from markupsafe import Markup

from latencytrace.errors import QuestionError
from latencytrace.model import Stage
from latencytrace.model.stage_colours import STAGE_COLOURS
from latencytrace.service.plain_answers import FORMULA
from latencytrace.service.web.pages.rendering import HEADERS

PARAMETER: Final = "export"  # of a page's address: the file that is wanted instead
SVG: Final = ".svg"

Table = Sequence[Mapping[str, object]]

_LEGEND_HEIGHT, _LEGEND_WIDTH = 24, 130
_VIEW_BOX: Final = re.compile(r'viewBox="0 0 (\d+) (\d+)"')
_STAGES: Final = re.compile(r'class="s-([a-z_]+)"')
_FOR_PAGES: Final = re.compile(r' (?:data-scale|tabindex|class|role)="[^"]*"')
_LINKS: Final = re.compile(r"</?a\b[^>]*>")
_STYLES: Final = (
    "text{font:11px sans-serif;fill:#566070}.grid{stroke:#d5dbe2;fill:none}"
    ".limit{stroke:#b3261e;stroke-dasharray:5 4;fill:none}.brush{display:none}"
    "circle{fill:#0b57b0;fill-opacity:0.65}.slow{fill:#cc7a07}.failed{fill:#b3261e}"
    ".path{fill:#1a1f26}.counter{fill:#0b57b0}.work{fill:#cc7a07}.throttled{fill:#fdeceb}"
)
_HEAT: Final = (
    "#c1e9f6", "#8ccee9", "#54b1dd", "#1c92cf", "#0c6fb8", "#124c9f", "#183481", "#172261",
    "#111243",
)  # fmt: skip


class Export(NamedTuple):
    """A file that a page offers."""

    name: str  # `stages.csv`, `heat-map.svg`
    made: Callable[[], Table | Markup]


def answer(exports: Sequence[Export], name: str) -> Response:
    """Answer with one of the files of a page, to be saved.

    Raises:
        QuestionError: The page has no such file; the message says which it has.
    """
    found = next((one for one in exports if one.name == name), None)
    if found is None:
        known = ", ".join(one.name for one in exports)
        use = f"use {known}" if known else "there is none yet"
        raise QuestionError(f"export: {name!r} is none of the files here: {use}")
    made = found.made()
    if isinstance(made, Markup):
        body, media_type = standalone(made), "image/svg+xml"
    else:
        body, media_type = csv_table(made), "text/csv; charset=utf-8; header=present"
    saved = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(body, 200, {**HEADERS, **saved}, media_type)


def csv_table(rows: Table) -> str:
    """A row for each document, a column for each field; those of inner documents as `p50.low`.

    Unknown is empty. No cell is one that a spreadsheet takes for a formula.
    """
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    text = io.StringIO()
    written = csv.writer(text)
    written.writerow(map(_cell, names))
    for row in flat:
        written.writerow([_cell(row.get(name)) for name in names])
    return text.getvalue()


def standalone(svg: Markup) -> str:
    """A picture of a page as a file: with its colours, and a legend of the stages in it."""
    text = _LINKS.sub("", str(svg))
    tag, _, inside = text.partition(">")
    box = _VIEW_BOX.search(tag)
    if box is None:
        raise ValueError("a picture says how large it is")
    width, height = (int(side) for side in box.groups())
    used = set(_STAGES.findall(inside))
    stages = [stage for stage in Stage if stage in used]
    in_row = max(width // _LEGEND_WIDTH, 1)
    legend_height = -(-len(stages) // in_row) * _LEGEND_HEIGHT
    tag = _FOR_PAGES.sub("", tag).replace(
        box[0], f'{box[0].removesuffix(f"{height}{chr(34)}")}{height + legend_height}"'
    )
    colours = "".join(f".s-{stage}{{fill:{STAGE_COLOURS[stage].light}}}" for stage in stages)
    heat = "".join(f".h{step}{{fill:{colour}}}" for step, colour in enumerate(_HEAT, 1))
    legend = "".join(
        _legend(stage, place % in_row * _LEGEND_WIDTH, height + place // in_row * _LEGEND_HEIGHT)
        for place, stage in enumerate(stages)
    )
    head = tag.replace(
        "<svg",
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{height + legend_height}"',
        1,
    )
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    body = inside.removesuffix("</svg>")
    return f"{head}><style>{_STYLES}{colours}{heat}</style>{ground}{body}{legend}</svg>"


def _legend(stage: Stage, x: int, y: int) -> str:
    return (
        f'<rect class="s-{stage}" x="{x + 4}" y="{y + 8}" width="10" height="10"/>'
        f'<text x="{x + 19}" y="{y + 17}">{stage}</text>'
    )


def _flat(row: Mapping[str, object], above: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, value in row.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{above}{name}.")
        else:
            found.append((f"{above}{name}", value))
    return found


def _cell(value: object) -> object:
    if isinstance(value, list | tuple):
        value = orjson.dumps(value).decode() if value else ""
    if isinstance(value, str) and FORMULA.match(value):
        return f"'{value}"
    return value
