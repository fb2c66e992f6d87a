"""Leaves of LlamaIndex: tools, the store in memory, and making nodes of documents."""

from latencytrace.agent.timing.hook import Hook, Patch, Replacement
from latencytrace.agent.toolkit.agent_tools import timed_tools
from latencytrace.agent.toolkit.vector_database import VectorDatabase
from latencytrace.model.stage import Stage

_STORE = VectorDatabase(system="llama_index", collection="", top_k=("query.similarity_top_k",))
_TOOLS = (
    ("function_tool", "FunctionTool"),
    ("query_engine", "QueryEngineTool"),
    ("retriever_tool", "RetrieverTool"),
)
_time_tools = timed_tools(lambda tool, *_, **__: tool.metadata.name)


class LlamaIndexHook(Hook):
    """Times what no library below tells of; engines, chats and workflows explain nothing."""

    requires = ("llama-index-core >= 0.12",)
    patches = (
        *(
            Replacement(f"llama_index.core.tools.{module}", f"{owner}.{method}", _time_tools)
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
