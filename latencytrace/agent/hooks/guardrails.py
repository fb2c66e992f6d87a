"""Scanners, validators and actions that check prompts and answers."""

from typing import Final

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.agent_tools import timed_guards

_llm_guard_time = timed_guards(lambda scanner, *_, **__: type(scanner).__name__)


class LlmGuardHook(Hook):
    """Times each scanner, one by one or in a list."""

    requires = ("llm-guard >= 0.3",)
    patches = tuple(
        Replacement(f"llm_guard.{side}_scanners.base", "Scanner.scan", _llm_guard_time, later=True)
        for side in ("input", "output")
    )


_guardrails_ai_time = timed_guards(lambda validator, *_, **__: type(validator).__name__)
_VALIDATORS = "guardrails.validator_base"


class GuardrailsAiHook(Hook):
    """Times each validator, of whatever class, in the thread or task that checks."""

    requires = ("guardrails-ai >= 0.5",)
    patches = tuple(
        Replacement(_VALIDATORS, f"Validator.{method}", _guardrails_ai_time, later=True)
        for method in ("validate", "async_validate", "_validate")
    )


# Actions that make the answer itself, which is no check of one.
_ANSWERS: Final = ("generate", "create_event", "retrieve_relevant_chunks")


def _name(_: object, action_name: str, *__: object, **___: object) -> str | None:
    return None if action_name.startswith(_ANSWERS) else action_name


class NemoguardrailsHook(Hook):
    """Times each action of a rail, of the library's or the program's own."""

    requires = ("nemoguardrails >= 0.10",)
    patches = (
        Replacement(
            "nemoguardrails.actions.action_dispatcher",
            "ActionDispatcher.execute_action",
            timed_guards(_name),
        ),
    )
