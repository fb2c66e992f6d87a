"""Dashboards are what Grafana's own types say: dashboards, queries, and each kind of panel."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.over_all import over_all
from tests.support.repository.dashboard_files import FILES, dashboard, panels

FOUND: dict[str, Any] = json.loads((Path(__file__).parent / "grafana/schema.json").read_text())
SCHEMAS = {version: found for version, found in FOUND.items() if version != "source"}
PANELS = [(f"{path.stem}: {panel['title']}", panel) for path in FILES for panel in panels(path)]

every_panel = over_all("panel", [panel for _, panel in PANELS], lambda panel: str(panel["title"]))


def wrong(held: object, kind: str) -> list[str]:
    """What the types of each version of Grafana have against it."""
    return [
        f"{version}: {'/'.join(map(str, error.path))}: {error.message}"
        for version, schemas in SCHEMAS.items()
        for error in jsonschema.Draft7Validator(schemas[kind]).iter_errors(held)
    ]


def kind_of(panel: dict[str, Any]) -> str:
    """How its types are called."""
    return "".join(map(str.capitalize, panel["type"].split("-")))


def without_queries_of_annotations(path: Path) -> dict[str, Any]:
    """A dashboard but for what is Prometheus' own in annotations: the type knows no source's."""
    held = dashboard(path)
    for marked in held["annotations"]["list"]:
        for name in ("expr", "step", "titleFormat"):
            marked.pop(name, None)
    return held


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dashboard_is_as_grafana_types_it(path: Path) -> None:
    assert wrong(without_queries_of_annotations(path), "WholeDashboard") == []


@every_panel
def test_the_options_of_a_panel_are_as_grafana_types_them(panel: dict[str, Any]) -> None:
    assert wrong(panel["options"], f"{kind_of(panel)}Options") == []


@every_panel
def test_the_fields_of_a_panel_are_as_grafana_types_them(panel: dict[str, Any]) -> None:
    custom = panel["fieldConfig"]["defaults"].get("custom", {})
    kind = f"{kind_of(panel)}Custom"

    assert (wrong(custom, kind) if kind in SCHEMAS["12.0.0"] else custom) in ([], {})


@every_panel
def test_the_queries_of_a_panel_are_as_grafana_types_them(panel: dict[str, Any]) -> None:
    assert [fault for asked in panel["targets"] for fault in wrong(asked, "PrometheusQuery")] == []


def test_what_grafana_would_not_take_is_found() -> None:
    broken = {**without_queries_of_annotations(FILES[0]), "refresh": 30, "pannels": []}

    assert len(wrong(broken, "WholeDashboard")) == 2 * len(SCHEMAS)
    assert set(SCHEMAS) == {"11.6.0", "12.0.0"}
