"""Tools, guardrails and retrievers of agent frameworks; models are seen by the clients' hooks."""

from typing import Any, Final

from latencytrace.agent.timing.hook import Hook, Patch, Replacement
from latencytrace.agent.toolkit.agent_tools import timed_tools
from latencytrace.agent.toolkit.vector_database import VectorDatabase
from latencytrace.model.stage import Stage

_crewai_time_tools = timed_tools(lambda tool, *_, **__: tool.name)


class CrewaiHook(Hook):
    """Times each tool, by whichever of the ways an agent calls it; crews explain nothing."""

    requires = ("crewai >= 0.100",)
    patches = (
        Replacement("crewai.tools.base_tool", "BaseTool.run", _crewai_time_tools, later=True),
        Replacement(
            "crewai.tools.base_tool",
            "BaseTool.arun",
            _crewai_time_tools,
            optional=True,
            later=True,
        ),
        Replacement(
            "crewai.tools.structured_tool", "CrewStructuredTool.invoke", _crewai_time_tools
        ),
        Replacement(
            "crewai.tools.structured_tool", "CrewStructuredTool.ainvoke", _crewai_time_tools
        ),
    )


_dspy_time_tools = timed_tools(lambda tool, *_, **__: tool.name)


class DspyHook(Hook):
    """Times what no library below tells of; modules and programs explain nothing."""

    requires = ("dspy >= 3.0",)
    patches = (
        Replacement("dspy.adapters.types.tool", "Tool.__call__", _dspy_time_tools),
        Replacement("dspy.adapters.types.tool", "Tool.acall", _dspy_time_tools, optional=True),
        Patch(
            "dspy.retrievers.embeddings", "Embeddings.__call__", Stage.RETRIEVE, name="retrieve"
        ),
        Patch("dspy.retrievers.retrieve", "Retrieve.__call__", Stage.RETRIEVE, name="retrieve"),
    )


def _pydantic_ai_name(_: object, validated: Any, **__: object) -> object:
    return validated.call.tool_name


class PydanticAiHook(Hook):
    """Times each tool that an agent calls; the agent and its graph explain nothing."""

    requires = ("pydantic-ai-slim >= 2.0",)
    patches = (
        Replacement(
            "pydantic_ai.tool_manager",
            "ToolManager.execute_tool_call",
            timed_tools(_pydantic_ai_name),
        ),
    )


_RUN: Final = "agents.run_internal.tool_execution"


def _openai_agents_name(*, function_tool: Any, **_: object) -> object:
    return function_tool.name


_openai_agents_time_tools: Final = timed_tools(_openai_agents_name)


class OpenaiAgentsHook(Hook):
    """Times what an agent has done; agents, turns and handoffs explain nothing."""

    requires = ("openai-agents >= 0.20",)
    patches = (
        # Where it is called from, which has its own name for it.
        Replacement(
            _RUN, "_invoke_function_tool_with_metadata", _openai_agents_time_tools, optional=True
        ),
        Replacement(_RUN, "invoke_function_tool", _openai_agents_time_tools, optional=True),
        Replacement("agents.realtime.session", "invoke_function_tool", _openai_agents_time_tools),
        Patch("agents.guardrail", "InputGuardrail.run", Stage.GUARDRAIL, name="guardrail"),
        Patch("agents.guardrail", "OutputGuardrail.run", Stage.GUARDRAIL, name="guardrail"),
    )


_STORE = VectorDatabase(system="llama_index", collection="", top_k=("query.similarity_top_k",))
_TOOLS = (
    ("function_tool", "FunctionTool"),
    ("query_engine", "QueryEngineTool"),
    ("retriever_tool", "RetrieverTool"),
)
_llama_index_time_tools = timed_tools(lambda tool, *_, **__: tool.metadata.name)


class LlamaIndexHook(Hook):
    """Times what no library below tells of; engines, chats and workflows explain nothing."""

    requires = ("llama-index-core >= 0.12",)
    patches = (
        *(
            Replacement(
                f"llama_index.core.tools.{module}", f"{owner}.{method}", _llama_index_time_tools
            )
            for module, owner in _TOOLS
            for method in ("call", "acall")
        ),
        *_STORE.calls(
            "llama_index.core.vector_stores.simple", "SimpleVectorStore", searches=("query",)
        ),
        Patch(
            "llama_index.core.node_parser.interface",
            "NodeParser.get_nodes_from_documents",
            Stage.PREPROCESS,
            within=True,
        ),
    )
