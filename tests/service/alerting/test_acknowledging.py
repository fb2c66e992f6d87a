"""Alerts that somebody looks after, and maintenance, as those on call say it."""

from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from latencytrace.cli.app import app as cli
from latencytrace.errors import LatencytraceError
from latencytrace.model import Acknowledgement
from latencytrace.model.objective import HOUR_NS, MINUTE_NS
from latencytrace.service.alerting.outbox import Outbox
from latencytrace.service.net.problems import answer_with_problems
from latencytrace.service.objectives.maintenance import (
    MAX_OF_A_DAY,
    MAX_WINDOWS,
    MaintenanceWindows,
)
from latencytrace.service.web.views.maintenance import maintenance_router
from latencytrace.service.web.views.objectives import objectives_router
from tests.service.objectives.test_maintenance import window
from tests.support.builders.notices import LINKS
from tests.support.builders.traffic import START_NS, Traffic
from tests.support.fakes.contracts import RecordingSink
from tests.support.servers.recording import Received, RecordingServer, Response
from tests.support.terminal import said

NOTE = {"by": "Ada", "note": "the index is being rebuilt"}


def api(traffic: Traffic) -> TestClient:
    """The API over an evaluator, which `traffic` drives."""
    app = FastAPI()
    answer_with_problems(app)
    app.include_router(objectives_router(traffic.evaluator, LINKS), prefix="/api/v1")
    app.include_router(
        maintenance_router(traffic.evaluator, LINKS, traffic.wall), prefix="/api/v1"
    )
    return TestClient(app, base_url="http://127.0.0.1/api/v1")


def keeping(traffic: Traffic) -> MaintenanceWindows:
    """Windows that are kept in its memory, those of before among them."""
    windows = traffic.evaluator.maintenance
    windows.take_up(traffic.memory.note("maintenance"))
    windows.keep = lambda text: traffic.memory.keep_note("maintenance", text)
    return windows


@pytest.fixture
def burning(tmp_path: Path) -> Traffic:
    """An objective whose page fires."""
    traffic = Traffic(tmp_path)
    traffic.run(30, tick_s=30)
    assert traffic.until_firing(1) is not None
    return traffic


def key(traffic: Traffic) -> str:
    """The fingerprint of its alert."""
    [alert] = traffic.evaluator.alerts()
    return alert.fingerprint


def test_an_acknowledgement_is_shown_until_the_end_and_through_a_restart(burning: Traffic) -> None:
    answered = api(burning).post(f"/alerts/{key(burning)}/acknowledge", json=NOTE).json()
    burning.restart(down_s=5)
    burning.run(1, bad_ratio=1)
    [shown] = api(burning).get("/alerts").json()["alerts"]
    burning.run(60, tick_s=30)
    before = burning.names()[:2]
    again = burning.until_firing(1)
    [anew] = api(burning).get("/alerts").json()["alerts"]

    assert answered["acknowledged"] == shown["acknowledged"]
    assert {**NOTE, "at": shown["acknowledged"]["at"]} == shown["acknowledged"]
    assert shown["description"][0].startswith("Acknowledged by Ada at 2025-11-2")
    assert shown["description"][0].endswith("UTC: the index is being rebuilt.")
    assert before == ["LatencySLOBurn/page began", "LatencySLOBurn/page ended"]
    assert again is not None
    assert anew["acknowledged"] is None


def test_it_is_kept_before_it_is_answered(burning: Traffic) -> None:
    api(burning).post(f"/alerts/{key(burning)}/acknowledge", json=NOTE)
    burning.start()  # as after `kill -9`, without another tick

    [alert] = burning.evaluator.alerts()
    assert alert.acknowledged is not None
    assert alert.acknowledged.by == "Ada"


def test_it_can_be_withdrawn(burning: Traffic) -> None:
    client = api(burning)
    client.post(f"/alerts/{key(burning)}/acknowledge", json=NOTE)
    answered = client.delete(f"/alerts/{key(burning)}/acknowledge").json()
    burning.run(1, bad_ratio=1)

    assert answered["acknowledged"] is None
    assert client.get("/alerts").json()["alerts"][0]["acknowledged"] is None


@pytest.mark.parametrize(
    ("which", "said", "status"),
    [
        ("nothing", {}, HTTPStatus.NOT_FOUND),
        (None, {"by": "x" * 101}, HTTPStatus.BAD_REQUEST),
        (None, {"note": "two\nlines"}, HTTPStatus.BAD_REQUEST),
        (None, {"who": "Ada"}, HTTPStatus.BAD_REQUEST),
    ],
)
def test_what_cannot_be_noted_is_refused(
    which: str | None, said: dict[str, str], status: int, burning: Traffic
) -> None:
    answered = api(burning).post(f"/alerts/{which or key(burning)}/acknowledge", json=said)

    assert answered.status_code == status
    assert burning.evaluator.alerts()[0].acknowledged is None


@pytest.mark.parametrize(("ends", "repeats"), [(1, 0), (3, 1)])
def test_people_are_not_reminded_of_it_and_receivers_that_forget_are(
    ends: int, repeats: int, burning: Traffic
) -> None:
    sink = RecordingSink(repeat_s=60, ends=ends)
    clock = burning.evaluator.clock
    outbox = Outbox({"it": sink}, LINKS, burning.memory, clock, burning.wall, lambda: 1.0)
    outbox.repeat(burning.evaluator.alerts())
    said = Acknowledgement(at_ns=START_NS, by="Ada", note=None)
    burning.evaluator.acknowledge(key(burning), said)
    burning.move(61)
    outbox.repeat(burning.evaluator.alerts())
    while outbox.step("it"):
        pass

    assert len(sink.sent) == repeats
    assert all(one.alert["acknowledged"] is not None for one in sink.sent)


def test_maintenance_by_api_counts_nothing_until_it_is_ended(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(60, tick_s=30)
    keeping(traffic)
    client = api(traffic)
    begun = client.post("/maintenance", json={"name": "cards", "duration": "2h"})
    before = traffic.evaluator.standings()[0].total
    traffic.run(20, bad_ratio=1, tick_s=30)
    within = traffic.evaluator.standings()[0]
    ended = client.delete("/maintenance/cards").json()
    traffic.run(10, tick_s=30)

    assert begun.status_code == HTTPStatus.CREATED
    assert int(begun.json()["end"]) - int(begun.json()["start"]) == 2 * HOUR_NS
    assert (within.bad, within.total) == (0, before)
    assert int(ended["end"]) - int(begun.json()["start"]) == 20 * MINUTE_NS
    assert traffic.evaluator.standings()[0].total > before
    assert traffic.names() == []
    assert client.get("/maintenance").json() == {"maintenance": []}


def test_maintenance_goes_on_after_a_restart(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(60, tick_s=30)
    keeping(traffic)
    api(traffic).post("/maintenance", json={"name": "cards", "duration": "2h"})
    traffic.restart()
    keeping(traffic)
    traffic.run(20, bad_ratio=1, tick_s=30)
    [shown] = api(traffic).get("/objectives").json()["maintenance"]

    assert traffic.names() == []
    assert (shown["name"], shown["is_on"], shown["is_in_file"]) == ("cards", True, False)


def test_maintenance_that_is_planned_can_be_called_off(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    client = api(traffic)
    planned = {"name": "x", "start": "2025-11-22T10:00:00Z", "end": "2025-11-22T11:00:00+00:00"}
    shown = client.post("/maintenance", json={**planned, "services": ["rag"]}).json()
    listed = client.get("/maintenance").json()["maintenance"]
    client.delete("/maintenance/x")

    assert (shown["is_on"], shown["services"]) == (False, ["rag"])
    assert listed == [shown]
    assert client.get("/maintenance").json() == {"maintenance": []}


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"name": "x"}, "either an end or a duration"),
        ({"name": "a b", "duration": "1h"}, "letters, digits"),
        ({"name": "x\n", "duration": "1h"}, "letters, digits"),
        ({"name": "x", "duration": "1w"}, "as 30m, 2h or 1d"),
        ({"name": "x", "duration": "32d"}, "within 31 days"),
        ({"name": "x", "duration": "1h", "start": "2020-01-01T00:00:00Z"}, "it is over"),
        ({"name": "x", "end": "2020-01-01T00:00:00Z"}, "must end after its start"),
        ({"name": "x", "duration": "1h", "start": "2026-01-01T00:00:00"}, "start"),
        ({"name": "x", "duration": "1h", "objectives": ["chat"]}, "there are: chat-e2e"),
        ({"name": "x", "duration": "1h", "routes": ["/"]}, "routes"),
        ({"name": "cards", "duration": "1h"}, "there is a window 'cards'"),
    ],
)
def test_maintenance_that_is_none_is_refused(
    wanted: dict[str, object], says: str, tmp_path: Path
) -> None:
    client = api(Traffic(tmp_path))
    client.post("/maintenance", json={"name": "cards", "duration": "1h"})
    answered = client.post("/maintenance", json=wanted)

    assert answered.status_code == HTTPStatus.BAD_REQUEST
    assert says in answered.json()["detail"]


def test_a_window_of_the_file_is_ended_there() -> None:
    windows = MaintenanceWindows([window(0, 60)])

    with pytest.raises(LatencytraceError, match="stands in the objectives file"):
        windows.end("it", START_NS)
    with pytest.raises(LatencytraceError, match="no window"):
        windows.end("other", START_NS)


@pytest.mark.long
def test_windows_that_are_over_bar_no_others_for_long() -> None:
    windows = MaintenanceWindows()
    for number in range(MAX_OF_A_DAY):
        windows.begin(window(0, 60, objectives=frozenset({f"{number}"})), START_NS + MINUTE_NS)
        windows.end("it", START_NS + MINUTE_NS)

    with pytest.raises(LatencytraceError, match="within a day"):
        windows.begin(window(1, 60), START_NS + MINUTE_NS)


def test_open_windows_are_bounded() -> None:
    windows = MaintenanceWindows()
    for number in range(MAX_WINDOWS):
        windows.begin(replace(window(0, 60), name=f"{number}"), START_NS + MINUTE_NS)

    with pytest.raises(LatencytraceError, match="end some"):
        windows.begin(window(1, 60), START_NS + MINUTE_NS)


def test_a_window_begins_within_a_year(tmp_path: Path) -> None:
    client = api(Traffic(tmp_path))

    wanted = {"name": "x", "start": "9999-12-31T23:00:00Z", "duration": "31d"}
    answer = client.post("/maintenance", json=wanted)

    assert answer.status_code == HTTPStatus.BAD_REQUEST
    assert "more than a year ahead" in answer.text


@pytest.fixture
def served(burning: Traffic) -> Iterator[str]:
    """The address of its API."""
    client = api(burning)

    def answer(received: Received) -> Response:
        if received.path == "/healthz":
            return Response()
        path = received.target.removeprefix("/api/v1")
        headers = {"content-type": "application/json"}
        found = client.request(
            received.method, path, content=received.body or None, headers=headers
        )
        return Response(status=found.status_code, body=found.content)

    with RecordingServer(answer) as server:
        yield server.url


@pytest.mark.parametrize("by_key", [True, False])
def test_the_command_acknowledges_by_objective_or_fingerprint(
    served: str, burning: Traffic, *, by_key: bool
) -> None:
    named = key(burning)[:8] if by_key else "chat-e2e"
    done = said("acknowledge", named, "--by", "Ada", "--url", served)
    shown = said("objectives", "--url", served)
    withdrawn = said("acknowledge", named, "--withdraw", "--url", served)

    assert done.startswith("Acknowledged: chat-e2e: ")
    assert "Acknowledged by Ada at " in shown
    assert f"latencytrace acknowledge {key(burning)[:8]}" not in shown
    assert withdrawn.startswith("Withdrawn: chat-e2e: ")
    assert f"latencytrace acknowledge {key(burning)[:8]}" in said("objectives", "--url", served)


def test_the_command_says_what_fires_where_another_alert_is_named(served: str) -> None:
    with pytest.raises(LatencytraceError, match=r"no alert of 'chat' fires; there is chat-e2e"):
        said("acknowledge", "chat", "--url", served)


def test_the_command_begins_lists_and_ends_maintenance(served: str) -> None:
    begun = said("maintenance", "cards", "--for", "2h", "--objective", "chat-e2e", "--url", served)
    listed = said("maintenance", "--url", served)
    shown = said("objectives", "--url", served)
    ended = said("maintenance", "cards", "--end", "--url", served)

    assert begun.startswith("maintenance cards (now): 2025-11-2")
    assert begun.rstrip().endswith("of chat-e2e")
    assert listed == begun
    assert "maintenance cards" in shown
    assert ended.startswith("maintenance cards: ")
    assert said("maintenance", "--url", served) == "There is no window of maintenance.\n"


@pytest.mark.parametrize(
    "flags", [["x"], ["--for", "1h"], ["x", "--for", "1h", "--end"], ["--service", "rag"]]
)
def test_the_command_refuses_what_makes_no_sense(flags: list[str]) -> None:
    assert CliRunner().invoke(cli, ["maintenance", *flags]).exit_code == 2
