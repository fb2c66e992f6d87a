"""The dashboard that asks ClickHouse: every query of it, by the engine itself, on real rows."""

import json
import re
from collections.abc import Iterator
from typing import Any

import chdb
import pytest

from latencytrace.model import Stage
from latencytrace.model.stage_colours import STAGE_COLOURS
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.repository.test_grafana_schema import kind_of, wrong
from tests.support.builders.made_requests import START_NS, made_request
from tests.support.repository.dashboard_files import ROOT, dashboard, names_in, panels, variables
from tests.support.tables.ledger_tables import write

PATH = ROOT / "dashboards" / "clickhouse" / "tail.json"
START_S = START_NS // 10**9
SHOWN = f"Start >= toDateTime({START_S}) AND Start <= toDateTime({START_S + 9})"
MS = 1_000_000
# As the plugin expands its macros (its documentation, "Macros") and Grafana its variables.
EXPANDED = {
    "$__timeFilter(Start)": SHOWN,
    "$__timeInterval(Start)": "toStartOfInterval(toDateTime(Start), INTERVAL 60 second)",
    "${service:singlequote}": "'rag','it\\'s'",
    "${route:singlequote}": "'POST /chat','GET /search'",
    "${quantile:raw}": "0.99",
}
PANELS = panels(PATH)
every_panel = pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chdb.session.Session]:
    """The engine on a folder of eleven requests, of which the slowest waited for retrieval."""
    folder = tmp_path_factory.mktemp("data")
    store = ChdbStore.open(folder)
    usual = {Stage.RETRIEVE: 10 * MS, Stage.DECODE: 90 * MS}
    requests = [made_request(0, usual, trace_id=f"{n:032x}", instance="a") for n in range(10)]
    slow = {Stage.RETRIEVE: 400 * MS, Stage.DECODE: 100 * MS}
    slowest = made_request(0, slow, trace_id="f" * 32, instance="b", input_tokens=3000)
    write(store, [*requests, slowest], keep_spans_of=())
    store.close()
    connection = chdb.connect(str(folder / "clickhouse"))
    yield connection
    connection.close()


def expanded(sql: str) -> str:
    """A query as the plugin sends it."""
    for name, text in EXPANDED.items():
        sql = sql.replace(name, text)
    return sql


def answer(engine: chdb.session.Session, title: str) -> list[dict[str, Any]]:
    """The rows of a panel."""
    [panel] = [panel for panel in PANELS if panel["title"] == title]
    [asked] = panel["targets"]
    answered = json.loads(str(engine.query(expanded(asked["rawSql"]), "JSON").data()))
    rows: list[dict[str, Any]] = answered["data"]
    return rows


def test_it_asks_one_data_source_of_clickhouse() -> None:
    ((name, chosen),) = variables(PATH, "datasource").items()
    kinds = set(re.findall(r'"type": "(prometheus|grafana-clickhouse-\w+)"', PATH.read_text()))

    assert (name, chosen["query"]) == ("datasource", "grafana-clickhouse-datasource")
    assert kinds == {"grafana-clickhouse-datasource"}


def test_it_is_as_grafana_types_it() -> None:
    assert wrong(dashboard(PATH), "WholeDashboard") == []
    assert [
        fault for panel in PANELS for fault in wrong(panel["options"], f"{kind_of(panel)}Options")
    ] == []


def test_every_variable_is_used_and_every_used_one_is_there() -> None:
    listed = {variable["name"] for variable in dashboard(PATH)["templating"]["list"]}

    used = {name for name in names_in(PATH.read_text("utf-8")) if not name.startswith("__")}
    assert used == listed


@every_panel
def test_a_panel_shows_rows(engine: chdb.session.Session, panel: dict[str, Any]) -> None:
    assert answer(engine, panel["title"])


@pytest.mark.parametrize("name", ["service", "route"])
def test_what_can_be_chosen_is_found(engine: chdb.session.Session, name: str) -> None:
    found = engine.query(expanded(variables(PATH)[name]["query"]), "TSV")

    assert str(found.data()).strip() in {"rag", "POST /chat"}


def test_lines_are_named_by_their_label_and_stages_have_their_colour(
    engine: chdb.session.Session,
) -> None:
    title = "Mean time of the tail in each stage"
    [panel] = [panel for panel in PANELS if panel["title"] == title]
    fixed = {
        one["matcher"]["options"]: one["properties"][0]["value"]["fixedColor"]
        for one in panel["fieldConfig"]["overrides"]
    }

    rows = answer(engine, title)
    assert {tuple(row) for row in rows} == {("time", "Stage", "Value")}
    assert fixed == {stage.value: STAGE_COLOURS[stage].dark for stage in Stage}


def test_the_slowest_request_comes_first_with_the_stage_that_took_longest(
    engine: chdb.session.Session,
) -> None:
    first, *_ = answer(engine, "Slowest requests")

    assert (first["Trace"], first["Duration"], first["Longest stage"]) == (
        "f" * 32,
        0.5,
        "retrieve",
    )


def test_what_the_tail_spends_longer_on_adds_up(engine: chdb.session.Session) -> None:
    rows = answer(engine, "What the tail spends longer on")

    assert {row["Stage"]: round(row["Longer"], 6) for row in rows} == {
        "retrieve": 0.39,
        "decode": 0.01,
    }


def test_what_sets_the_tail_apart_is_found(engine: chdb.session.Session) -> None:
    first, *_ = answer(engine, "Instances")
    tokens, *_ = answer(engine, "Input tokens")

    assert (first["Value"], first["Share"]) == ("b", 1)
    assert (tokens["Value"], tokens["Share"]) == ("2048", 1)
