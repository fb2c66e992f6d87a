"""Tools of CrewAI's agents; models are seen by the client's hook that it asks with."""

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.agent_tools import timed_tools

_time_tools = timed_tools(lambda tool, *_, **__: tool.name)


class CrewaiHook(Hook):
    """Times each tool, by whichever of the ways an agent calls it; crews explain nothing."""

    requires = ("crewai >= 0.100",)
    patches = (
        Replacement("crewai.tools.base_tool", "BaseTool.run", _time_tools, later=True),
        Replacement(
            "crewai.tools.base_tool", "BaseTool.arun", _time_tools, optional=True, later=True
        ),
        Replacement("crewai.tools.structured_tool", "CrewStructuredTool.invoke", _time_tools),
        Replacement("crewai.tools.structured_tool", "CrewStructuredTool.ainvoke", _time_tools),
    )
