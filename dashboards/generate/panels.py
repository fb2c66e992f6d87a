"""The panels of a dashboard: what they ask, in which unit, and how they are drawn."""

from collections.abc import Mapping, Sequence
from typing import Final

from dashboards.generate.dashboard import DATASOURCE, Json

HALF: Final = 12
THIRD: Final = 8
WHOLE: Final = 24
_FIXED_COLORS: Final = {
    "ok": "green",
    "error": "red",
    "timeout": "dark-red",
    "rejected": "orange",
    "cancelled": "purple",
    "unattributed": "#8e8e8e",
}
_HIDE_NOWHERE: Final[Json] = {"legend": False, "tooltip": False, "viz": False}


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


def graph(  # noqa: PLR0913 - what a graph is told
    title: str,
    description: str,
    unit: str,
    targets: Sequence[Json],
    *,
    stacked: bool = False,
    width: int = HALF,
    links: Sequence[Json] = (),
) -> Json:
    """Lines over time, one for each series; stacked where they add up to something."""
    custom: Json = {
        "drawStyle": "line",
        "lineWidth": 0 if stacked else 1,
        "fillOpacity": 75 if stacked else 8,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "hideFrom": _HIDE_NOWHERE,
    }
    defaults: Json = {
        "unit": unit,
        "min": 0,
        "color": {"mode": "palette-classic-by-name"},
        "custom": custom,
        "links": list(links),
    }
    options: Json = {
        "legend": {
            "displayMode": "table",
            "placement": "right" if width == WHOLE else "bottom",
            "showLegend": True,
            "calcs": ["mean", "max"],
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return _panel(
        "timeseries",
        title,
        description,
        targets,
        size=(width, 9),
        fields={
            "defaults": defaults,
            "overrides": [_color(*pair) for pair in _FIXED_COLORS.items()],
        },
        options=options,
    )


def number(title: str, description: str, unit: str, expr: str, *, width: int = 4) -> Json:
    """The latest value, over a sketch of those before it."""
    options: Json = {
        "colorMode": "none",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
        "wideLayout": True,
    }
    return _panel(
        "stat",
        title,
        description,
        [target(expr)],
        size=(width, 4),
        fields={"defaults": {"unit": unit, "min": 0}, "overrides": []},
        options=options,
    )


def bars(title: str, description: str, unit: str, expr: str, legend: str) -> Json:
    """One bar for each series, over the whole time shown."""
    options: Json = {
        "displayMode": "gradient",
        "orientation": "horizontal",
        "minVizHeight": 16,
        "minVizWidth": 8,
        "namePlacement": "auto",
        "showUnfilled": True,
        "sizing": "auto",
        "valueMode": "color",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    defaults: Json = {"unit": unit, "min": 0, "color": {"mode": "continuous-BlYlRd"}}
    return _panel(
        "bargauge",
        title,
        description,
        [instant(expr, legend)],
        size=(HALF, 9),
        fields={"defaults": defaults, "overrides": []},
        options=options,
    )


def heatmap(title: str, description: str, expr: str, *, width: int = HALF) -> Json:
    """How many requests fell into each bucket of time, with exemplars: click one for its trace."""
    options: Json = {
        "calculate": False,
        "cellGap": 1,
        "color": {
            "mode": "scheme",
            "scheme": "Oranges",
            "fill": "dark-orange",
            "scale": "exponential",
            "exponent": 0.5,
            "steps": 64,
            "reverse": False,
        },
        "exemplars": {"color": "rgba(0, 90, 255, 0.9)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "tooltip": {"mode": "single", "yHistogram": True, "showColorScale": False},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": "s"},
    }
    asked = {**target(expr, "{{le}}", exemplars=True), "format": "heatmap"}
    custom: Json = {"scaleDistribution": {"type": "linear"}, "hideFrom": _HIDE_NOWHERE}
    return _panel(
        "heatmap",
        title,
        description,
        [asked],
        size=(width, 9),
        fields={"defaults": {"unit": "short", "custom": custom}, "overrides": []},
        options=options,
    )


def table(
    title: str,
    description: str,
    columns: Mapping[str, tuple[str, str, str]],
    *,
    labels: Sequence[str],
    links: Sequence[Json] = (),
) -> Json:
    """A row for each set of labels, sorted by the first column of values.

    Args:
        title: Its heading.
        description: What it shows.
        columns: By heading the query, its unit and how the cell is drawn.
        labels: The labels that stand before the values.
        links: Of every label.
    """
    targets = [instant(expr, table=True) for expr, _, _ in columns.values()]
    values = [f"Value #{chr(ord('A') + number)}" for number in range(len(columns))]
    if len(columns) == 1:
        values = ["Value"]
    headings = dict(zip((*labels, *values), (*map(str.capitalize, labels), *columns), strict=True))
    overrides = [
        _of_field(heading, {"unit": unit, "custom.cellOptions": {"type": cell}})
        for heading, (_, unit, cell) in columns.items()
    ]
    overrides += [
        _of_field(label.capitalize(), {"links": list(links)}) for label in labels if links
    ]
    first_unit = next(iter(columns.values()))[1]
    drawn = _panel(
        "table",
        title,
        description,
        targets,
        size=(WHOLE, 9),
        fields={"defaults": {"unit": first_unit, "min": 0}, "overrides": overrides},
        options={
            "showHeader": True,
            "cellHeight": "sm",
            "sortBy": [{"displayName": next(iter(columns)), "desc": True}],
        },
    )
    organize: Json = {
        "excludeByName": {"Time": True},
        "indexByName": {name: place for place, name in enumerate(headings)},
        "renameByName": headings,
    }
    drawn["transformations"] = [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": organize},
    ]
    return drawn


def _panel(  # noqa: PLR0913 - the parts of a panel
    kind: str,
    title: str,
    description: str,
    targets: Sequence[Json],
    *,
    size: tuple[int, int],
    fields: Json,
    options: Json,
) -> Json:
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


def _color(name: str, color: str) -> Json:
    return _of_field(name, {"color": {"mode": "fixed", "fixedColor": color}})


def _of_field(name: str, properties: Mapping[str, object]) -> Json:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }
