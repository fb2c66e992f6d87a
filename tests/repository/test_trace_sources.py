"""Dashboards that lead to a Tempo or Jaeger, too: as Grafana takes them, to the same requests."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from dashboards.generate.all_dashboards import DASHBOARDS, file_text
from dashboards.generate.trace_sources import TraceKind, TraceSource
from tests.repository.test_grafana_schema import kind_of, wrong
from tests.support.repository.dashboard_files import ROOT

SOURCES = [TraceSource(kind, "my traces") for kind in TraceKind]
PUT_IN = {
    "__from": "1763690000000",
    "__to": "1763693600000",
    **dict.fromkeys(("__data.fields.Service", "__field.labels.service"), "rag & more"),
    **dict.fromkeys(("__data.fields.Route", "__field.labels.route"), "POST /chat/{id}"),
    "__data.fields.Trace": "0af7651916cd43dd8448eb211c80319c",
}
TRACE = "The trace in "
ROUTE = "Its traces in "
OURS = {"The trace", "Its slowest requests"}

every_source = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.kind)


def links(part: object) -> Iterator[list[dict[str, Any]]]:
    """The lists of links of a dashboard."""
    if isinstance(part, dict):
        for value in part.values():
            yield from links(value)
    elif isinstance(part, list):
        found = [one for one in part if isinstance(one, dict) and "url" in one]
        if found:
            yield found
        for value in part:
            yield from links(value)


def made(source: TraceSource, name: str) -> dict[str, Any]:
    """A dashboard as it stands in its file."""
    held: dict[str, Any] = json.loads(file_text(source.linked(DASHBOARDS[name])))
    return held


def asked(url: str) -> dict[str, Any]:
    """The pane of Explore that a link opens, with values put in as Grafana does."""

    def value(found: re.Match[str]) -> str:
        name, _, form = found[1].partition(":")
        return quote(PUT_IN[name], safe="") if form == "percentencode" else PUT_IN[name]

    address = urlsplit(re.sub(r"\$\{([^}]+)\}", value, url))
    parts = parse_qs(address.query, strict_parsing=True)
    [pane] = json.loads(parts["panes"][0]).values()
    assert (address.path, parts["schemaVersion"]) == ("/explore", ["1"])
    assert isinstance(pane, dict)
    return pane


def theirs(source: TraceSource, begins: str) -> dict[str, Any]:
    """The one query that all links with such a title ask."""
    every = [
        asked(link["url"])
        for name in DASHBOARDS
        for listed in links(made(source, name))
        for link in listed
        if link["title"] == f"{begins}{source.kind.capitalize()}"
    ]
    assert every
    assert all(pane == every[0] for pane in every)
    assert every[0]["datasource"] == "my traces"
    assert every[0]["range"] == {"from": PUT_IN["__from"], "to": PUT_IN["__to"]}
    [query] = every[0]["queries"]
    assert query["datasource"] == {"type": source.kind.value, "uid": "my traces"}
    return {name: query[name] for name in query.keys() - {"refId", "datasource", "limit"}}


@every_source
@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_with_more_links_is_as_grafana_types_it(
    source: TraceSource, name: str
) -> None:
    held = made(source, name)
    shown = [panel for panel in held["panels"] if panel["type"] != "row"]
    for marked in held["annotations"]["list"]:
        for own in ("expr", "step", "titleFormat"):  # of Prometheus
            marked.pop(own, None)

    assert wrong(held, "WholeDashboard") == []
    assert [
        fault for panel in shown for fault in wrong(panel["options"], f"{kind_of(panel)}Options")
    ] == []


@every_source
def test_what_leads_to_our_requests_leads_to_the_source_too(source: TraceSource) -> None:
    numbers = []
    for name, dashboard in DASHBOARDS.items():
        for ours, listed in zip(links(dashboard), links(made(source, name)), strict=True):
            of_requests = [one for one in ours if one["title"] in OURS]
            assert listed[: len(ours)] == ours
            assert len(listed) == len(ours) + len(of_requests)
            numbers.append(len(of_requests))

    assert sum(numbers) >= 6


def test_a_link_asks_tempo_for_the_trace_or_for_those_of_the_route() -> None:
    source = TraceSource(TraceKind.TEMPO, "my traces")
    asks = '{resource.service.name="rag & more" && name="POST /chat/{id}"}'

    traceql = {"queryType": "traceql", "filters": []}

    assert theirs(source, TRACE) == {**traceql, "query": PUT_IN["__data.fields.Trace"]}
    assert theirs(source, ROUTE) == {**traceql, "query": asks, "tableType": "traces"}


def test_a_link_asks_jaeger_for_the_trace_or_for_those_of_the_route() -> None:
    source = TraceSource(TraceKind.JAEGER, "my traces")
    asks = {"service": "rag & more", "operation": "POST /chat/{id}"}

    assert theirs(source, TRACE) == {"query": PUT_IN["__data.fields.Trace"]}
    assert theirs(source, ROUTE) == {"queryType": "search", **asks}


def test_nothing_but_links_is_changed() -> None:
    def without_links(part: object) -> object:
        if isinstance(part, dict):
            return {key: without_links(value) for key, value in part.items()}
        if not isinstance(part, list):
            return part
        return [without_links(one) for one in part if not (isinstance(one, dict) and "url" in one)]

    for name, dashboard in DASHBOARDS.items():
        held = json.loads(file_text(dashboard))  # which knows no tuples
        assert without_links(made(SOURCES[0], name)) == without_links(held)


def test_the_generator_writes_them_to_a_folder_of_ones_own(tmp_path: Path) -> None:
    before = (ROOT / "dashboards/tail.json").read_bytes()
    generate = [sys.executable, "-m", "dashboards.generate", "--jaeger", "my-jaeger"]
    refused = subprocess.run(generate, cwd=ROOT, capture_output=True, text=True, check=False)
    subprocess.run([*generate, "--out", tmp_path / "own"], cwd=ROOT, check=True)
    written = {
        path.relative_to(tmp_path / "own").as_posix()
        for path in (tmp_path / "own").rglob("*.json")
    }

    assert (refused.returncode, "--out FOLDER" in refused.stderr) == (2, True)
    assert (ROOT / "dashboards/tail.json").read_bytes() == before
    assert written == {f"{name}.json" for name in DASHBOARDS}
    assert "my-jaeger" in (tmp_path / "own/clickhouse/tail.json").read_text("utf-8")
