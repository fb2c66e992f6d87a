"""Actions of NeMo Guardrails; the models that they ask have spans of their own."""

from typing import Final

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.agent_tools import timed_guards

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
