"""A ClickHouse server that goes away: what was acknowledged waits in the journal."""

import signal
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.clickhouse.front import PASSWORD, ClickHouseFront
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

pytestmark = pytest.mark.long

FAILING = "latencytrace_service_store_failing"


def trace(number: int) -> str:
    return f"{number:032x}"


def requests_counted(service: RunningService) -> int:
    breakdown = service.ask("/breakdown?since=1970-01-01T00:00:00Z")
    count = breakdown["requests"]
    assert isinstance(count, int)
    return count


def test_what_comes_while_the_server_is_away_is_there_when_it_is_back(tmp_path: Path) -> None:
    with ClickHouseFront(tmp_path / "engine") as front:
        env = {"LATENCYTRACE_CLICKHOUSE_PASSWORD": PASSWORD}
        url = f"clickhouse://writer@127.0.0.1:{front.port}/traces"
        with RunningService(tmp_path / "data", "--store", url, env=env) as service:
            assert service.post(otlp(one_span(trace(1)))).is_success
            until(lambda: requests_counted(service) == 1, service.said)

            front.kill()
            answers = [service.post(otlp(one_span(trace(number)))) for number in range(2, 7)]
            until(lambda: service.metric(FAILING) == 1, service.said)
            unready = service.get("/readyz")
            more = service.post(otlp(one_span(trace(7))))
            front.start()

            until(lambda: requests_counted(service) == 7, service.said)
            until(lambda: service.get("/readyz").is_success, service.said)
            until(lambda: service.metric(FAILING) == 0, service.said)
            said = service.said()

    assert [answer.status_code for answer in answers] == [200] * 5
    assert more.status_code == 200  # also once that is known
    assert unready.status_code == 503
    assert "wait in the journal as far as it goes: ClickHouse at http://" in unready.text
    assert PASSWORD not in said
    assert "HTTP Request" not in said  # of the client's own log, with what was asked


def test_a_password_on_the_command_line_is_warned_of_and_not_repeated(tmp_path: Path) -> None:
    with (
        ClickHouseFront(tmp_path / "engine") as front,
        RunningService(tmp_path / "data", "--store", front.url("traces")) as service,
    ):
        said = service.said()

    assert "put it into LATENCYTRACE_CLICKHOUSE_PASSWORD" in said
    assert PASSWORD not in said
    assert quote(PASSWORD, safe="") not in said


def test_a_service_that_dies_while_the_server_is_away_loses_nothing(tmp_path: Path) -> None:
    with ClickHouseFront(tmp_path / "engine") as front:
        url = front.url("traces")
        with RunningService(tmp_path / "data", env={"LATENCYTRACE_STORE": url}) as service:
            front.kill()
            answers = [service.post(otlp(one_span(trace(number)))) for number in range(1, 6)]
            service.end(signal.SIGKILL)

        front.start()
        with RunningService(tmp_path / "data", env={"LATENCYTRACE_STORE": url}) as service:
            until(lambda: requests_counted(service) == 5, service.said)

    assert [answer.status_code for answer in answers] == [200] * 5
