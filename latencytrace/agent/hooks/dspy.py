"""Leaves of DSPy: its tools and retrievers; models are seen by LiteLLM's hook."""

from latencytrace.agent.timing.hook import Hook, Patch, Replacement
from latencytrace.agent.toolkit.agent_tools import timed_tools
from latencytrace.model.stage import Stage

_time_tools = timed_tools(lambda tool, *_, **__: tool.name)


class DspyHook(Hook):
    """Times what no library below tells of; modules and programs explain nothing."""

    requires = ("dspy >= 3.0",)
    patches = (
        Replacement("dspy.adapters.types.tool", "Tool.__call__", _time_tools),
        Replacement("dspy.adapters.types.tool", "Tool.acall", _time_tools, optional=True),
        Patch(
            "dspy.retrievers.embeddings", "Embeddings.__call__", Stage.RETRIEVE, name="retrieve"
        ),
        Patch("dspy.retrievers.retrieve", "Retrieve.__call__", Stage.RETRIEVE, name="retrieve"),
    )
