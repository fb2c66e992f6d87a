"""`latencytrace run` and gunicorn's gevent workers: gunicorn patches, or its configuration."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from latencytrace.model import semconv
from tests.support.agent.receiving import Receiver
from tests.support.few import few
from tests.support.servers.traced_server import TracedServer, traced_server

SHOP = """
import subprocess

import gevent
import latencytrace
from gevent.pool import Pool

# A pool made before the fork may lose calls, traced or not: gevent notices the fork late.

def ask(name):
    with latencytrace.stage(name):
        return subprocess.check_output(["echo", name]).decode().strip()

def note(name):
    with latencytrace.stage(name):
        return name

def shop(environ, start_response):
    answers = [gevent.spawn(ask, "spawned").get(), *Pool(2).map(ask, ["pooled"])]
    answers.append(gevent.get_hub().threadpool.apply(note, ("in a thread",)))
    start_response("200 OK", [("content-type", "text/plain")])
    return [", ".join(answers).encode()]
"""
COMMAND = (
    "-m",
    "gunicorn",
    "--bind",
    "127.0.0.1:PORT",
    "--workers",
    "2",
    "-k",
    "gevent",
    "shop:shop",
)
PATCHED = "from gevent import monkey\nmonkey.patch_all()\n"
CONFIGURATIONS = {
    "patched by gunicorn": "",
    "patched in the configuration": PATCHED,
    "patched, and preloaded": f"{PATCHED}preload_app = True\n",
}
REQUESTS = 20
STAGES = ("spawned", "pooled", "in a thread")


def ask(server: TracedServer) -> str:
    answer = server.client.get("/order", headers={"connection": "close"})
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "configuration", few(1, CONFIGURATIONS.values()), ids=list(CONFIGURATIONS)
)
def test_each_request_arrives_with_all_that_its_greenlets_did(
    receiver: Receiver, tmp_path: Path, configuration: str
) -> None:
    pytest.importorskip("gevent")
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "gunicorn.conf.py").write_text(configuration)
    command = (sys.executable, *COMMAND)

    with traced_server(
        receiver, tmp_path, *command, ready="/healthz", PYTHONPATH=str(tmp_path)
    ) as server:
        with ThreadPoolExecutor(8) as clients:
            answers = list(clients.map(ask, [server] * REQUESTS))
        server.wait_until(lambda: len(sent(receiver)) >= REQUESTS)

    traces = sent(receiver)
    assert answers == ["spawned, pooled, in a thread"] * REQUESTS
    assert len(traces) == len(set(traces)) == REQUESTS
    for stage in STAGES:
        of_stage = [span.trace_id for span in receiver.spans if span.name == stage]
        assert sorted(set(of_stage) & set(traces)) == sorted(traces)
    assert "Traceback" not in (tmp_path / "server.log").read_text()


def sent(receiver: Receiver) -> list[str]:
    """The traces of the requests for orders."""
    spans = receiver.spans
    return [span.trace_id for span in spans if span.attributes.get(semconv.URL_PATH) == "/order"]
