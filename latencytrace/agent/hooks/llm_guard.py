"""Scanners of LLM Guard, of prompts and of answers."""

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.agent_tools import timed_guards

_time = timed_guards(lambda scanner, *_, **__: type(scanner).__name__)


class LlmGuardHook(Hook):
    """Times each scanner, one by one or in a list."""

    requires = ("llm-guard >= 0.3",)
    patches = tuple(
        Replacement(f"llm_guard.{side}_scanners.base", "Scanner.scan", _time, later=True)
        for side in ("input", "output")
    )
