"""Reads dashboards as Grafana does: panels, queries, and variables with values put in."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "dashboards").glob("*.json"))
_VARIABLE = re.compile(r"\$(?:\{(\w+)[^}]*\}|(\w+))")


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel."""

    dashboard: str
    panel: str
    expr: str
    asked: Mapping[str, Any]
    is_mark: bool = False  # on every graph, where it has a value

    def __str__(self) -> str:
        return f"{self.dashboard}: {self.panel}: {self.expr}"


def dashboard(path: Path) -> dict[str, Any]:
    """What a file holds."""
    held: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return held


def panels(path: Path) -> list[dict[str, Any]]:
    """The panels of a dashboard, rows left out."""
    return [panel for panel in dashboard(path)["panels"] if panel["type"] != "row"]


def all_queries() -> Iterator[Query]:
    """Every query of every panel, and of every mark on them."""
    for path in FILES:
        for panel in panels(path):
            for asked in panel["targets"]:
                yield Query(path.stem, panel["title"], asked["expr"], asked)
        for marked in dashboard(path)["annotations"]["list"]:
            if "expr" in marked:
                yield Query(path.stem, marked["name"], marked["expr"], marked, is_mark=True)


def variables(path: Path, kind: str = "query") -> dict[str, dict[str, Any]]:
    """Variables of a kind by name."""
    listed = dashboard(path)["templating"]["list"]
    return {variable["name"]: variable for variable in listed if variable["type"] == kind}


def names_in(text: str) -> set[str]:
    """The variables that a text asks for."""
    return {braced or bare for braced, bare in _VARIABLE.findall(text)}


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with these variables' values; the others stay."""
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], found[0]), text)
