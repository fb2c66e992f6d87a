"""Validators of Guardrails AI; the model that a guard asks has its own span."""

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.agent_tools import timed_guards

_time = timed_guards(lambda validator, *_, **__: type(validator).__name__)
_VALIDATORS = "guardrails.validator_base"


class GuardrailsAiHook(Hook):
    """Times each validator, of whatever class, in the thread or task that checks."""

    requires = ("guardrails-ai >= 0.5",)
    patches = tuple(
        Replacement(_VALIDATORS, f"Validator.{method}", _time, later=True)
        for method in ("validate", "async_validate", "_validate")
    )
