"""A dashboard: its variables, its links, and where its panels stand."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

Json = dict[str, object]

SCHEMA_VERSION: Final = 41  # Grafana 11.6; newer ones carry it over by themselves
DATASOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
SERVICE_URL: Final = "${latencytrace_url:raw}"
TIME: Final = "since=${__from:date:iso}&until=${__to:date:iso}"
SLOWEST: Final = f"{SERVICE_URL}/requests?order=slowest&{TIME}"
_TAG: Final = "latencytrace"
_COLUMNS: Final = 24


def dashboard(
    uid: str,
    title: str,
    description: str,
    *,
    variables: Sequence[Json],
    rows: Mapping[str, Sequence[Json]],
    annotations: Sequence[Json] = (),
) -> Json:
    """One file for Grafana.

    Args:
        uid: What links to it know it by; it never changes.
        title: Its name.
        description: What it answers.
        variables: What can be chosen at its top besides the data source and the service's address.
        rows: Panels by the heading they stand under.
        annotations: What is marked on every graph.
    """
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": [_TAG],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "refresh": "30s",
        "fiscalYearStartMonth": 0,
        "liveNow": False,
        "weekStart": "",
        "annotations": {"list": [_ANNOTATIONS, *annotations]},
        "links": [_OTHERS, _link("Slowest requests", SLOWEST)],
        "templating": {"list": [_DATASOURCE_VARIABLE, *variables, _URL_VARIABLE]},
        "panels": _placed(rows),
    }


def variable(name: str, series: str, *, every: str = ".*") -> Json:
    """A choice of a label's values in a series; `every` also matches series without the label."""
    query = f"label_values({series}, {name})"
    return {
        "type": "query",
        "name": name,
        "label": heading(name),
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "refresh": 2,  # when the time changes too
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": every,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "options": [],
        "regex": "",
        "hide": 0,
        "skipUrlSync": False,
    }


def heading(label: str) -> str:
    """A label as people write it."""
    return label.upper() if label in {"slo", "uuid"} else label.capitalize()


def choice(name: str, label: str, values: Sequence[str], chosen: str) -> Json:
    """A choice among fixed values."""
    options: list[Json] = [
        {"selected": value == chosen, "text": value, "value": value} for value in values
    ]
    return {
        "type": "custom",
        "name": name,
        "label": label,
        "query": ",".join(values),
        "current": {"selected": True, "text": chosen, "value": chosen},
        "options": options,
        "multi": False,
        "includeAll": False,
        "hide": 0,
        "skipUrlSync": False,
    }


def annotation(name: str, expr: str, title: str, color: str) -> Json:
    """A mark on every graph wherever a query has a value."""
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "expr": expr,  # where every version of Grafana reads it
        "step": "60s",
        "titleFormat": title,
    }


def link_of_data(title: str, url: str) -> Json:
    """A link on a cell or a line."""
    return {"title": title, "url": url, "targetBlank": True}


def slowest_of(service: str, route: str) -> Json:
    """A link from a cell or a line to the slowest requests of its route.

    Args:
        service: Where Grafana finds it.
        route: Likewise.
    """
    url = f"{SLOWEST}&service=${{{service}:percentencode}}&route=${{{route}:percentencode}}"
    return link_of_data("Its slowest requests", url)


def _placed(rows: Mapping[str, Sequence[Json]]) -> list[Json]:
    """Panels from left to right, a new line where one is full."""
    placed: list[Json] = []
    top = 0
    for heading, panels in rows.items():
        placed.append(_row(heading, top))
        top += 1
        left = height = 0
        for panel in panels:
            size = cast("dict[str, int]", panel["gridPos"])
            if left + size["w"] > _COLUMNS:
                left, top, height = 0, top + height, 0
            placed.append({**panel, "gridPos": {**size, "x": left, "y": top}})
            left += size["w"]
            height = max(height, size["h"])
        top += height
    return [{"id": number, **panel} for number, panel in enumerate(placed, start=1)]


def _row(title: str, top: int) -> Json:
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": {"h": 1, "w": _COLUMNS, "x": 0, "y": top},
        "panels": [],
    }


def _link(title: str, url: str) -> Json:
    return {
        "type": "link",
        "title": title,
        "tooltip": "",
        "icon": "external link",
        "url": url,
        "tags": [],
        "asDropdown": False,
        "targetBlank": True,
        "includeVars": False,
        "keepTime": False,
    }


_OTHERS: Final[Json] = {
    **_link("latencytrace", ""),
    "type": "dashboards",
    "icon": "dashboard",
    "tags": [_TAG],
    "targetBlank": False,
    "includeVars": True,
    "keepTime": True,
}
_ANNOTATIONS: Final[Json] = {
    "builtIn": 1,
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
    "name": "Annotations & Alerts",
    "type": "dashboard",
}
_DATASOURCE_VARIABLE: Final[Json] = {
    "type": "datasource",
    "name": "datasource",
    "label": "Data source",
    "query": "prometheus",
    "current": {"selected": False, "text": "default", "value": "default"},
    "options": [],
    "refresh": 1,
    "regex": "",
    "multi": False,
    "includeAll": False,
    "hide": 0,
    "skipUrlSync": False,
}
_ADDRESS: Final = "http://127.0.0.1:8321"
_URL_VARIABLE: Final[Json] = {
    "type": "textbox",
    "name": "latencytrace_url",
    "label": "latencytrace at",
    "description": "Where a browser reaches the service; links lead there.",
    "query": _ADDRESS,
    "current": {"selected": True, "text": _ADDRESS, "value": _ADDRESS},
    "options": [{"selected": True, "text": _ADDRESS, "value": _ADDRESS}],
    "hide": 0,
    "skipUrlSync": False,
}
