"""Profiles of this process by torch's own profiler, ordered by a receiver's answer."""

import gzip
import json
from typing import Any

import pytest

from latencytrace.model.profile import AGENT_HEADER, ORDER_HEADER, ProfileOrder, ProfilingAgent
from tests.agent.hooks.tiny_chat import TinyChat, tiny_chat
from tests.agent.receiving import Receiver, TracedProgram, wait_until
from tests.generating import generating

ID = "0123456789abcdef0123456789abcdef"
LONG = ProfileOrder(profile_id=ID, steps=1000, seconds=30.0)


@pytest.fixture(scope="module")
def chat() -> TinyChat:
    return tiny_chat()


def order(receiver: Receiver, wanted: ProfileOrder) -> None:
    """Give an order in the answer to the next post."""
    receiver.answers.append((200, {ORDER_HEADER: wanted.header()}))


def sent(receiver: Receiver) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What the first profile that arrives is about, and its trace."""
    wait_until(lambda: bool(receiver.profiles))
    _, body = receiver.profiles[0]
    line, _, packed = body.partition(b"\n")
    return json.loads(line), json.loads(gzip.decompress(packed)) if packed else None


def told(receiver: Receiver) -> ProfilingAgent:
    """What the last post said of the agent."""
    agent = ProfilingAgent.parse(receiver.post_headers[-1][AGENT_HEADER])
    assert agent is not None
    return agent


def test_so_many_steps_are_recorded_as_were_ordered(
    agent: TracedProgram, receiver: Receiver, chat: TinyChat
) -> None:
    order(receiver, ProfileOrder(profile_id=ID, steps=7, seconds=30.0))

    with generating(chat):
        about, trace = sent(receiver)

    assert (about["steps"], about["ended_by"], about["service"]) == (7, "steps", "program")
    assert receiver.profiles[0][0] == ID
    assert trace is not None
    operators = [event["name"] for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
    assert operators.count("aten::scaled_dot_product_attention") >= 7
    assert about["held_ns"] > 0
    requests = {span.trace_id for span in agent.spans() if span.name == "request"}
    assert set(about["trace_ids"]) <= requests
    assert about["trace_ids"]
