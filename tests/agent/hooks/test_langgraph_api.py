"""The hook of LangGraph's API server: the server itself, with one worker."""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from latencytrace.agent.hooks.langgraph import LanggraphHook
from latencytrace.model import Stage
from tests.support.agent.receiving import Receiver
from tests.support.servers.traced_server import TracedServer, traced_server

pytest.importorskip("langgraph_api")

HOOKS = (LanggraphHook,)
GRAPH = """
import asyncio
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict):
    text: str

async def answer(state):
    await asyncio.sleep(0.3)
    return {"text": "it"}

graph = StateGraph(State)
graph.add_node("answer", answer)
graph.add_edge(START, "answer")
graph.add_edge("answer", END)
graph = graph.compile()
"""
ROUTE = "/runs/wait"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def server(receiver: Receiver, tmp_path: Path) -> Iterator[TracedServer]:
    (tmp_path / "graph.py").write_text(GRAPH)
    (tmp_path / "langgraph.json").write_text(
        json.dumps({"dependencies": ["."], "graphs": {"agent": "./graph.py:graph"}})
    )
    command = (str(Path(sys.executable).with_name("langgraph")), "dev", "--port", "PORT")
    options = ("--no-browser", "--no-reload", "--n-jobs-per-worker", "1")
    with traced_server(receiver, tmp_path, *command, *options, ready="/ok") as server:
        yield server


def test_a_run_that_waits_for_a_worker_is_queued(server: TracedServer) -> None:
    """The server forbids calls that block its event loop, which must not lose requests."""
    asked = {"assistant_id": "agent", "input": {"text": "a secret"}}
    with ThreadPoolExecutor(3) as clients:
        answers = list(clients.map(lambda _: server.client.post(ROUTE, json=asked), range(3)))

    assert [answer.status_code for answer in answers] == [200] * 3
    requests = server.spans(f"POST {ROUTE}", 3)
    waits = server.spans("wait for a worker", 3)
    assert {wait.stage for wait in waits} == {Stage.QUEUE}
    assert {wait.parent_id for wait in waits} == {request.span_id for request in requests}
    works = sorted(server.spans("worker.stream_run", 3), key=lambda work: work.start_ns)
    ends_ns = sorted(wait.end_ns for wait in waits)
    # One worker takes all: each waits until the one before it has ended.
    assert ends_ns[1] >= works[0].end_ns
    assert ends_ns[2] >= works[1].end_ns
