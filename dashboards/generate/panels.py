"""The panels of a dashboard but tables: in which unit, and how they are drawn."""

from collections.abc import Mapping, Sequence
from typing import Final

from dashboards.generate.dashboard import Json
from dashboards.generate.panel import HALF, WHOLE, instant, of_field, panel, target
from latencytrace.model.stage_colours import STAGE_COLOURS

# Grafana is dark unless somebody chose otherwise.
_STAGE_COLORS: Final = {stage.value: colour.dark for stage, colour in STAGE_COLOURS.items()}
_FIXED_COLORS: Final = {
    "ok": "green",
    "error": "red",
    "timeout": "dark-red",
    "rejected": "orange",
    "cancelled": "purple",
}
Steps = Sequence[tuple[float | None, str]]  # from a value on, the color; None: from the least
_HIDE_NOWHERE: Final[Json] = {"legend": False, "tooltip": False, "viz": False}


def graph(
    title: str,
    description: str,
    unit: str,
    targets: Sequence[Json],
    *,
    stacked: bool = False,
    by_stage: bool = False,
    below_zero: bool = False,
    width: int = HALF,
    links: Sequence[Json] = (),
    thresholds: Steps | None = None,
    logarithmic: bool = False,
    least_step: str = "",
) -> Json:
    """Lines over time, one for each series; stacked where they add up to something.

    Stages have their colour. Thresholds are dashed lines. `least_step` is for what is rare.
    """
    custom: Json = {
        "drawStyle": "line",
        "lineWidth": 0 if stacked else 1,
        "fillOpacity": 75 if stacked else 0,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "hideFrom": _HIDE_NOWHERE,
        **({"scaleDistribution": {"type": "log", "log": 10}} if logarithmic else {}),
        **({} if thresholds is None else {"thresholdsStyle": {"mode": "dashed"}}),
    }
    defaults: Json = {
        "unit": unit,
        **_least(below_zero or logarithmic),
        "color": {"mode": "palette-classic"},
        "custom": custom,
        "links": list(links),
        **thresholds_of(thresholds),
    }
    colors = _STAGE_COLORS if by_stage else _FIXED_COLORS
    beside = by_stage or width == WHOLE  # a legend, where there is room
    options: Json = {
        "legend": {
            "displayMode": "table" if beside else "list",
            "placement": "right" if beside else "bottom",
            "showLegend": True,
            "calcs": ["mean", "max"] if beside else [],
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    drawn = panel(
        "timeseries",
        title,
        description,
        targets,
        size=(width, 9),
        fields={
            "defaults": defaults,
            "overrides": [_color(*pair) for pair in colors.items()],
        },
        options=options,
    )
    return {**drawn, "interval": least_step} if least_step else drawn


def number(
    title: str,
    description: str,
    unit: str,
    expr: str,
    *,
    below_zero: bool = False,
    thresholds: Steps | None = None,
) -> Json:
    """The latest value, over a sketch of those before it; in the colour of its threshold."""
    options: Json = {
        "colorMode": "none" if thresholds is None else "value",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
        "wideLayout": True,
    }
    return panel(
        "stat",
        title,
        description,
        [target(expr)],
        size=(4, 4),
        fields={
            "defaults": {"unit": unit, **_least(below_zero), **thresholds_of(thresholds)},
            "overrides": [],
        },
        options=options,
    )


def bars(title: str, description: str, unit: str, expr: str, legend: str) -> Json:
    """One bar for each series, over the whole time shown."""
    options: Json = {
        "displayMode": "gradient",
        "orientation": "horizontal",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
        "minVizHeight": 16,
        "maxVizHeight": 300,
        "minVizWidth": 8,
        "namePlacement": "auto",
        "showUnfilled": True,
        "sizing": "auto",
        "valueMode": "color",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    defaults: Json = {"unit": unit, "min": 0, "color": {"mode": "continuous-BlYlRd"}}
    return panel(
        "bargauge",
        title,
        description,
        [instant(expr, legend)],
        size=(HALF, 9),
        fields={"defaults": defaults, "overrides": []},
        options=options,
    )


def states(
    title: str, description: str, expr: str, legend: str, texts: Mapping[int, tuple[str, str]]
) -> Json:
    """A band for each series, in the text and the color of its value."""
    custom: Json = {"lineWidth": 0, "fillOpacity": 80, "hideFrom": _HIDE_NOWHERE}
    mapped: Json = {
        "type": "value",
        "options": {
            str(value): {"index": place, "text": text, "color": color}
            for place, (value, (text, color)) in enumerate(texts.items())
        },
    }
    options: Json = {
        "alignValue": "left",
        "mergeValues": True,
        "rowHeight": 0.8,
        "showValue": "never",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    defaults: Json = {
        "unit": "none",
        "color": {"mode": "thresholds"},
        "custom": custom,
        "mappings": [mapped],
    }
    return panel(
        "state-timeline",
        title,
        description,
        [target(expr, legend)],
        size=(WHOLE, 7),
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
        "showValue": "never",
        "tooltip": {"mode": "single", "yHistogram": True, "showColorScale": False},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": "s"},
    }
    asked = {**target(expr, "{{le}}", exemplars=True), "format": "heatmap"}
    custom: Json = {"scaleDistribution": {"type": "linear"}, "hideFrom": _HIDE_NOWHERE}
    return panel(
        "heatmap",
        title,
        description,
        [asked],
        size=(width, 9),
        fields={"defaults": {"unit": "short", "custom": custom}, "overrides": []},
        options=options,
    )


def thresholds_of(steps: Steps | None) -> Json:
    """The property of a field that has them."""
    if steps is None:
        return {}
    found = [{"color": color, "value": value} for value, color in steps]
    return {"thresholds": {"mode": "absolute", "steps": found}}


def _least(below_zero: bool) -> Json:  # noqa: FBT001 - as it was told
    return {} if below_zero else {"min": 0}


def _color(name: str, color: str) -> Json:
    return of_field(name, {"color": {"mode": "fixed", "fixedColor": color}})
