"""`latencytrace run` and `instrument()` under uWSGI, which forks without telling Python."""

import importlib.util
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.agent.receiving import ReceivedSpan, Receiver
from tests.support.few import few
from tests.support.servers.traced_server import PATIENCE_S, TracedServer, traced_server

pytestmark = [
    pytest.mark.timeout(200),
    pytest.mark.skipif(
        importlib.util.find_spec("pyuwsgi") is None, reason="pyuwsgi is not installed"
    ),
]
SHOP = """
import os
import latencytrace
from flask import Flask

application = Flask(__name__)

@application.get("/healthz")
def healthz():
    return "yes"

@application.get("/order")
def order():
    with latencytrace.stage("work"):
        return str(os.getpid())

@application.get("/obstacle")
def obstacle():
    return str(latencytrace.agent_status().obstacle)
"""
ITSELF = "import latencytrace\nlatencytrace.instrument()\n"
ITS_OWN_HOOK = """
from uwsgidecorators import postfork

@postfork
def begin():
    print("THEIRS", flush=True)
"""
BASE = ("--http-socket", "127.0.0.1:PORT", "--wsgi-file", "shop.py")
WORKERS = (*BASE, "--master", "--processes", "2")
REQUESTS = 24


def asked(server: TracedServer, path: str) -> str:
    """The answer on a connection of its own: uWSGI closes each after one, without a word."""
    answer = httpx.get(f"{server.url}{path}", timeout=PATIENCE_S, trust_env=False)
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.fixture
def uwsgi(tmp_path: Path) -> str:
    """A program called `uwsgi`, as the package installs one."""
    script = tmp_path / "uwsgi"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nfrom pyuwsgi import run\nsys.exit(run())\n"
    )
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize(
    ("options", "own"),
    few(
        2,
        [
            pytest.param(WORKERS, ("", ""), id="two workers"),
            pytest.param(BASE, ("", ""), id="one process"),
            pytest.param((*BASE, "--threads", "2"), ("", ""), id="one process, two threads"),
            pytest.param((*WORKERS, "--lazy-apps"), ("", ""), id="two workers, lazy applications"),
            pytest.param(
                (*WORKERS, "--py-call-osafterfork"),
                ("", ""),
                marks=pytest.mark.skipif(
                    sys.version_info >= (3, 13),
                    reason="uWSGI's own workers die of the option there",
                ),
                id="Python hears of forks late",
            ),
            pytest.param(
                (*WORKERS, "--threads", "2", "--py-call-uwsgi-fork-hooks"),
                ("", ""),
                id="Python hears",
            ),
            pytest.param(
                WORKERS, (ITSELF, ITS_OWN_HOOK), id="instrument(), and a hook of its own"
            ),
        ],
    ),
)
def test_each_request_arrives_once_from_the_worker_that_answered_it(
    receiver: Receiver,
    tmp_path: Path,
    uwsgi: str,
    options: tuple[str, ...],
    own: tuple[str, str],
) -> None:
    (tmp_path / "shop.py").write_text(own[0] + SHOP + own[1])

    with traced_server(receiver, tmp_path, uwsgi, *options, ready="/healthz") as server:
        with ThreadPoolExecutor(8) as clients:
            answered = Counter(clients.map(asked, [server] * REQUESTS, ["/order"] * REQUESTS))
        server.wait_until(lambda: len(orders(receiver)) >= REQUESTS)
        obstacle = asked(server, "/obstacle")

    assert Counter(str(span.resource["process.pid"]) for span in orders(receiver)) == answered
    assert len({span.span_id for span in receiver.spans}) == len(receiver.spans)
    instances = {span.resource["service.instance.id"] for span in orders(receiver)}
    assert len(instances) == len(answered)
    assert obstacle == "None"
    assert ("THEIRS" in (tmp_path / "server.log").read_text()) == bool(own[1])
    assert "Exception" not in (tmp_path / "server.log").read_text()


def orders(receiver: Receiver) -> list[ReceivedSpan]:
    """The requests for orders."""
    return [span for span in receiver.spans if span.name == "GET /order"]
