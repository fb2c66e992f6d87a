"""What a program's tests put in the place of clocks and connections is not for the agent."""

import http.client
import sys
import time
from pathlib import Path

import pytest

import latencytrace
from latencytrace.agent import clock
from latencytrace.agent.clock import wall_ns
from latencytrace.agent.export import http_connection
from tests.support.agent.receiving import Receiver, TracedProgram
from tests.support.servers.command_line import environment
from tests.support.servers.command_line import latencytrace as command
from tests.support.servers.serving import serving_wsgi

REPLACES = """
import builtins, io, json, os, pathlib, socket, sys, threading
import latencytrace
from latencytrace.agent.reporting.own_cost import pressure
from latencytrace.agent.reporting.start_phases import process_began_ns

called = []

def replace(owner, name):
    def mock(*args, **kwargs):
        called.append(name)
        return original(*args, **kwargs)

    original = getattr(owner, name)
    setattr(owner, name, mock)

for name in ("open", "read_bytes", "read_text"):
    replace(pathlib.Path, name)
replace(builtins, "open")
replace(io, "open")
replace(threading.Thread, "start")
for name in ("socket", "getaddrinfo", "create_connection"):
    replace(socket, name)
for name in ("dumps", "loads"):
    replace(json, name)
with latencytrace.stage("parent"):
    pass
latencytrace.flush()
pressure()
assert process_began_ns("self")
child = os.fork()
if not child:
    with latencytrace.stage("child"):
        pass
    latencytrace.flush()
    print(*called, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_what_a_programs_tests_replace_is_not_called_by_the_agent(receiver: Receiver) -> None:
    done = command(
        *("run", "--endpoint", receiver.endpoint, "--", sys.executable, "-c", REPLACES),
        env=environment(),
    )

    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
    assert {span.name for span in receiver.spans} == {"parent", "child"}


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
