"""What every panel has: its queries, where it stands, and its fields."""

from collections.abc import Mapping, Sequence
from typing import Final

from dashboards.generate.dashboard import DATASOURCE, Json

HALF: Final = 12
THIRD: Final = 8
WHOLE: Final = 24
DAYS: Final = "suffix:d"  # readable on an axis, which "4.13 weeks" is not
TOKENS_PER_S: Final = "count:tokens/s"
SPANS_PER_S: Final = "count:spans/s"


def target(expr: str, legend: str = "", *, exemplars: bool = False) -> Json:
    """A query over the time shown; `exemplars` marks single traces on the graph."""
    return _target(expr, legend, exemplar=exemplars, range=True, format="time_series")


def instant(expr: str, legend: str = "", *, table: bool = False) -> Json:
    """A query at the end of the time shown."""
    kind = "table" if table else "time_series"
    return _target(expr, legend, exemplar=False, instant=True, range=False, format=kind)


def _target(expr: str, legend: str, **more: object) -> Json:
    named = {"legendFormat": legend} if legend else {}
    return {"datasource": DATASOURCE, "editorMode": "code", "expr": expr, **named, **more}


def panel(
    kind: str,
    title: str,
    description: str,
    targets: Sequence[Json],
    *,
    size: tuple[int, int],
    fields: Json,
    options: Json,
) -> Json:
    """One panel."""
    width, height = size
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": {"w": width, "h": height},  # where it stands is decided by its dashboard
        "fieldConfig": fields,
        "options": options,
        "targets": [
            {**asked, "refId": chr(ord("A") + number)} for number, asked in enumerate(targets)
        ],
    }


def of_field(name: str, properties: Mapping[str, object]) -> Json:
    """What is different for one field."""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }
