"""The hook of NeMo Guardrails, with a rail of its own and a model that is none."""

import asyncio
from typing import Any

import pytest

from latencytrace.agent.hooks.guardrails import NemoguardrailsHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, attribute_text

pytestmark = pytest.mark.filterwarnings("ignore")  # of how it is made
dispatcher = pytest.importorskip("nemoguardrails.actions.action_dispatcher")

HOOKS = (NemoguardrailsHook,)


async def check(text: str) -> bool:
    """Say whether a text may pass."""
    return "bad" not in text


async def generate_bot_message() -> str:
    """Make an answer, which is no check."""
    return "an answer"


def test_an_action_is_one_span_under_its_name_if_it_checks(spans: Spans) -> None:
    actions: Any = dispatcher.ActionDispatcher(load_all_actions=False)
    actions.register_action(check, "self_check_input")
    actions.register_action(generate_bot_message, "generate_bot_message")

    async def run() -> list[Any]:
        return [
            await actions.execute_action("self_check_input", {"text": "a secret"}),
            await actions.execute_action("generate_bot_message", {}),
        ]

    assert asyncio.run(run()) == [(True, "success"), ("an answer", "success")]
    assert (spans.names, spans.stages) == (["self_check_input"], [Stage.GUARDRAIL])
    assert "secret" not in attribute_text(spans)
