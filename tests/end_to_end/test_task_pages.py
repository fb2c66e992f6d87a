"""The commands on the pages that lead to a cause: each answers, over requests that have one."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from latencytrace.cli.app import app
from latencytrace.model import Span, SpanKind, Stage, semconv
from tests.repository.test_doc_blocks import DOCS, blocks, commands
from tests.support.builders.slow_searches import REQUESTS, slow_searches
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

PAGES = ("slow-first-token", "idle-gpu", "after-a-release", "remote-models", "warm-up")
READING = {"breakdown", "requests", "trace", "tail", "compare", "whatif", "gpu"}
VERDICTS = ("Regression", "Improvement", "No change", "Not enough data")
SAID = {
    "breakdown": "explained by spans",
    "trace": "ledger",
    "tail": "slow:",
    "whatif": "p99",
    "gpu": "GPU",
}
ASKED = [
    (page, words)
    for page in PAGES
    for block in blocks(DOCS / f"{page}.md")
    if block.language == "sh"
    for words in commands(block)
    if words[0] in READING
]


def release(version: str, model: str, first: int) -> Iterator[Span]:
    """The requests of one version."""
    for span in slow_searches(first=first):
        labels = {semconv.GEN_AI_RESPONSE_MODEL: model} if span.parent_id is None else {}
        yield replace(span, version=version, attributes={**span.attributes, **labels})


def load() -> Span:
    """What a process did before it served."""
    start_ns = time.time_ns() - 400 * 10**9
    return one_span(
        "e" * 32,
        "e" * 16,
        name="weights",
        kind=SpanKind.INTERNAL,
        start_ns=start_ns,
        end_ns=start_ns + 10**9,
        attributes={semconv.STAGE: Stage.LOAD.value},
    )


def counted(service: RunningService) -> object:
    """How many requests its breakdown is of."""
    return service.ask("/breakdown?since=1h")["requests"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service that has two releases behind it."""
    with RunningService(tmp_path_factory.mktemp("task_pages") / "data") as running:
        for spans in (
            release("1.1", "gpt-4o", 1),
            release("1.2", "gpt-4o-mini", REQUESTS + 1),
            [load()],
        ):
            running.post(otlp(*spans)).raise_for_status()
        until(lambda: counted(running) == 2 * REQUESTS, lambda: counted(running))
        running.request("e" * 32)
        yield running


def test_the_pages_ask_something() -> None:
    assert {words[0] for _, words in ASKED} == READING - {"requests"}


@pytest.mark.parametrize(
    "words", [pytest.param(words, id=f"{page}: {' '.join(words)}") for page, words in ASKED]
)
def test_a_command_answers(
    words: list[str], service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATENCYTRACE_URL", service.url)
    answer = CliRunner().invoke(app, words)

    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    if words[0] == "compare":
        assert answer.exit_code in {0, 1, 3}, answer.output
        assert any(verdict in answer.output for verdict in VERDICTS), answer.output
    else:
        assert answer.exit_code == 0, answer.output
        assert SAID[words[0]] in answer.output
