"""`latencytrace run` and servers with several workers: each request arrives exactly once."""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.agent.receiving import ReceivedSpan, Receiver
from tests.support.few import few
from tests.support.servers.traced_server import TracedServer, traced_server

# What each worker does when it imports the application is counted, too.
SHOP = """
import os
import latencytrace

with latencytrace.stage("import"):
    pass

def sync(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [str(os.getpid()).encode()]

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
"""
GUNICORN = ("-m", "gunicorn", "--bind", "127.0.0.1:PORT", "--workers", "2")
UVICORN = ("-m", "uvicorn", "--port", "PORT", "--lifespan", "off")
ASGI = ("--worker-class", "uvicorn.workers.UvicornWorker", "shop:app")
REQUESTS = 24
pytestmark = pytest.mark.timeout(400)  # an interpreter for each worker, on a busy machine


def ask(server: TracedServer) -> int:
    """The process that answers on a connection of its own."""
    answer = server.client.get("/order", headers={"connection": "close"})
    assert answer.status_code == 200, answer.text
    return int(answer.text)


@pytest.mark.parametrize(
    ("command", "imports"),
    few(
        3,
        [
            pytest.param((*GUNICORN, "shop:sync"), 2, id="gunicorn, sync workers"),
            pytest.param((*GUNICORN, "--preload", "shop:sync"), 1, id="gunicorn, preloaded"),
            pytest.param((*GUNICORN, *ASGI), 2, id="gunicorn, uvicorn workers"),
            pytest.param(
                (*GUNICORN, "--preload", *ASGI), 1, id="gunicorn, uvicorn workers, preloaded"
            ),
            pytest.param((*UVICORN, "--workers", "2", "shop:app"), 2, id="uvicorn, 2 workers"),
            pytest.param((*UVICORN, "shop:app"), 1, id="uvicorn"),
        ],
    ),
)
def test_each_request_arrives_once_from_the_worker_that_answered_it(
    receiver: Receiver, tmp_path: Path, command: tuple[str, ...], imports: int
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)

    with traced_server(
        receiver, tmp_path, sys.executable, *command, ready="/healthz", PYTHONPATH=str(tmp_path)
    ) as server:
        with ThreadPoolExecutor(8) as clients:
            answered = Counter(clients.map(ask, [server] * REQUESTS))
        imported = server.spans("import", imports)
        server.wait_until(lambda: len(sent(receiver)) >= REQUESTS)

    assert Counter(span.resource["process.pid"] for span in sent(receiver)) == answered
    assert len({span.span_id for span in receiver.spans}) == len(receiver.spans)
    assert {span.resource["service.name"] for span in receiver.spans} == {"shop"}
    instances = {span.resource["service.instance.id"] for span in (*sent(receiver), *imported)}
    pids = {span.resource["process.pid"] for span in (*sent(receiver), *imported)}
    assert len(instances) == len(pids)


def sent(receiver: Receiver) -> list[ReceivedSpan]:
    """The requests for orders."""
    return [span for span in receiver.spans if span.attributes.get("url.path") == "/order"]
