"""What a program's tests put in the place of clocks and connections is not for the agent."""

import http.client
import time
from pathlib import Path

import pytest

import latencytrace
from latencytrace.agent import clock
from latencytrace.agent.clock import wall_ns
from latencytrace.agent.export import http_connection
from tests.support.agent.receiving import TracedProgram
from tests.support.servers.serving import serving_wsgi


def test_the_agents_clock_and_connections_are_no_objects_that_others_replace() -> None:
    theirs = {id(value) for value in vars(time).values()}
    connections = {id(http.client), id(http.client.HTTPConnection), id(http.client.HTTPResponse)}

    assert theirs.isdisjoint(
        id(each) for each in (clock.monotonic_ns, clock.cpu_ns, clock.system_ns)
    )
    assert connections.isdisjoint(map(id, vars(http_connection).values()))


def test_a_frozen_clock_moves_no_span(agent: TracedProgram) -> None:
    freezegun = pytest.importorskip("freezegun")
    before_ns = wall_ns()

    with freezegun.freeze_time("1975-01-01"), latencytrace.stage("rerank"):
        assert time.time() < 200_000_000

    (span,) = agent.named("rerank")
    assert before_ns <= span.start_ns <= span.end_ns <= wall_ns()


def test_a_cassette_holds_no_post_of_the_agents(agent: TracedProgram, tmp_path: Path) -> None:
    vcr = pytest.importorskip("vcr")
    requests = pytest.importorskip("requests")
    cassette = tmp_path / "cassette.yaml"

    def application(_: object, start_response: object) -> list[bytes]:
        start_response("200 OK", [("Content-Length", "2")])  # type: ignore[operator]
        return [b"ok"]

    with serving_wsgi(application) as url, vcr.use_cassette(str(cassette)):
        requests.get(f"{url}/asked", timeout=60)
        with latencytrace.stage("rerank"):
            pass
        agent.named("rerank")

    assert cassette.read_text().count("uri: ") == 1
    assert f"{url}/asked" in cassette.read_text()
