"""While there is maintenance, objectives count nothing and alert of nothing."""

from pathlib import Path

import numpy as np
import pytest

from latencytrace.errors import ObjectivesError
from latencytrace.model import Tally
from latencytrace.model.objective import MINUTE_NS
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.objectives.file import parse_objectives
from latencytrace.service.objectives.maintenance import Maintenance, MaintenanceWindows
from latencytrace.service.watch import ObjectivesReload
from tests.service.objectives.test_file import CHAT
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.made_tables import made_table
from tests.support.builders.traffic import SLOW, START_NS, Traffic
from tests.support.tables.ledger_tables import tables_of

WINDOW = """---
apiVersion: latencytrace/v1
kind: Maintenance
metadata: {name: new-cards}
spec: {start: 2025-11-21T02:00:00Z, end: 2025-11-21T03:00:00+00:00, objectives: [chat-e2e]}
"""


def window(start_min: float, end_min: float, **of: frozenset[str]) -> Maintenance:
    """From and to so many minutes after the start of the traffic."""
    start_ns, end_ns = (START_NS + round(one * MINUTE_NS) for one in (start_min, end_min))
    return Maintenance(name="it", start_ns=start_ns, end_ns=end_ns, **of)


@pytest.mark.parametrize("named", ["", "chat-e2e", "other"])
@pytest.mark.parametrize("service", ["", "rag", "other"])
def test_a_window_is_of_what_it_names_and_else_of_everything(named: str, service: str) -> None:
    found = window(
        0, 1, objectives=frozenset({named} - {""}), services=frozenset({service} - {""})
    )

    names_it = named == "chat-e2e" or service == "rag"
    assert found.covers(made_objective()) == (names_it or not (named or service))


def test_a_window_is_read_from_the_file() -> None:
    [found] = parse_objectives(CHAT + WINDOW, "o.yaml").maintenance

    assert (found.name, found.objectives) == ("new-cards", frozenset({"chat-e2e"}))
    assert (found.end_ns - found.start_ns) / MINUTE_NS == 60
    assert found.start_ns == 1_763_690_400 * 10**9


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[chat-e2e]", "[chat]", "line 20: spec names no objective 'chat': there are chat-e2e"),
        ("02:00:00Z", "02:00:00", "line 20: spec.start is '2025-11-21T02:00:00': write a time"),
        ("T03:00", "T01:00", "line 20: spec must end after its start"),
        ("2025-11-21T03", "2026-11-21T03", "line 20: spec must end after its start, and within"),
        ("latencytrace/v1", "latencytrace/v2", "line 17: apiVersion is 'latencytrace/v2'"),
        ("kind: Maintenance", "kind: Pause", "line 18: kind is 'Pause': write Maintenance"),
        ("start:", "from:", "line 20: spec"),
    ],
)
def test_a_window_that_is_none_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(ObjectivesError) as raised:
        parse_objectives(CHAT + WINDOW.replace(old, new), "o.yaml")

    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("of", "is_covered"),
    [
        ({}, True),
        ({"objectives": frozenset({"chat-e2e"})}, True),
        ({"services": frozenset({"rag"})}, True),
        ({"objectives": frozenset({"x"}), "services": frozenset({"y"})}, False),
    ],
)
def test_a_window_is_for_its_objectives_and_services(
    of: dict[str, frozenset[str]], *, is_covered: bool
) -> None:
    windows = MaintenanceWindows([window(1, 2, **of)])
    moments = np.array([START_NS + minute * MINUTE_NS for minute in range(4)])
    holds = windows.hold_at(made_objective(), moments).tolist()

    assert holds == [True, not is_covered, True, True]
    assert holds == [windows.holds_at(made_objective(), int(at_ns)) for at_ns in moments]


def test_an_outage_within_a_window_is_neither_counted_nor_alerted(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.evaluator.maintenance.replace([window(60, 90)], traffic.wall())
    traffic.run(59, tick_s=30)
    before = traffic.evaluator.standings()[0].total
    traffic.move(60)
    traffic.run(28, bad_ratio=1, tick_s=30)
    within = traffic.evaluator.standings()[0]
    traffic.move(120)
    traffic.run(10, tick_s=30)

    assert (within.bad, within.total) == (0, before)
    assert traffic.names() == []
    assert traffic.evaluator.standings()[0].total > before


def test_the_same_outage_pages_without_a_window(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(60, tick_s=30)
    traffic.run(28, bad_ratio=1, tick_s=30)

    assert traffic.names() == ["LatencySLOBurn/page began"]


def test_silence_in_a_window_is_no_news_and_after_it_is(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.evaluator.maintenance.replace([window(60, 90)], traffic.wall())
    traffic.run(60, tick_s=30)
    traffic.move(39 * 60)
    traffic.tick()
    within = traffic.names()
    traffic.move(3 * 60)
    traffic.tick()

    assert within == []
    assert traffic.names() == ["LatencySLONoData/page began"]


def test_a_table_is_counted_as_its_requests_are(tmp_path: Path) -> None:
    table = made_table(11)
    ends_ns = table.start_ns + table.duration_ns
    middle_ns = int(np.median(ends_ns))
    objectives = [
        made_objective(name=name, service=name, route=None)
        for name in sorted({root.service for root in table.roots})
    ]
    found: list[list[Tally]] = []
    for tables in ([one for each in table.requests() for one in tables_of([each])], [table]):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        traffic = Traffic(folder, *objectives)
        whole = Maintenance(name="it", start_ns=0, end_ns=middle_ns)
        traffic.evaluator.maintenance.replace([whole], traffic.wall())
        traffic.evaluator.count(Settled(tables=tables, until_ns=1))
        found.append([tally for _, tally in traffic.evaluator.watched.since_start()])

    assert found[0] == found[1]


def test_a_window_is_taken_up_while_the_service_runs(tmp_path: Path) -> None:
    file = tmp_path / "objectives.yaml"
    file.write_text(CHAT)
    reload = ObjectivesReload(file, parse_objectives(CHAT, "o.yaml"))
    at_ns = 1_763_690_400 * 10**9
    before = reload.maintenance.holds_at(made_objective(), at_ns)
    file.write_text(CHAT + WINDOW)
    reload.step()

    assert (before, reload.maintenance.holds_at(made_objective(), at_ns)) == (True, False)


def test_a_slow_request_after_a_window_counts(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.evaluator.maintenance.replace([window(-5, 1)], traffic.wall())
    traffic.one(SLOW)
    traffic.move(61)
    traffic.one(SLOW)
    traffic.tick()

    assert traffic.evaluator.standings()[0].bad == 1


def test_a_window_that_leaves_the_file_has_been_until_then(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    maintenance = traffic.evaluator.maintenance
    maintenance.replace([window(60, 120)], traffic.wall())
    traffic.run(60, tick_s=30)
    traffic.move(40 * 60)
    traffic.tick()
    maintenance.replace([], traffic.wall())
    traffic.tick()
    at_once = traffic.names()
    traffic.move(11 * 60)
    traffic.tick()

    assert at_once == []
    assert traffic.names() == ["LatencySLONoData/page began"]
    assert maintenance.holds_at(made_objective(), traffic.wall())
