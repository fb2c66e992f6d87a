"""Leaves of LangChain and LangGraph: tools, retrievers, caches, the splitting of texts."""

from collections.abc import Callable
from typing import Any, Final

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Call, beginning, timed
from latencytrace.agent.toolkit.agent_tools import timed_tools
from latencytrace.agent.toolkit.calls import first_of_each_span
from latencytrace.model.stage import Stage

_RETRIEVERS: Final = "langchain_core.retrievers"
# Where a retriever keeps what it asks: a store, or other retrievers: their calls say more.
_ASKS: Final = ("vectorstore", "retriever", "base_retriever", "retrievers")


_time_tools = timed_tools(lambda tool, *_, **__: tool.name)


def _time_retrievers(method: str) -> Callable[[Recorder, Timed], Timed]:
    """Build what times retrievers that no other hook sees the work of."""

    def build(recorder: Recorder, original: Timed) -> Timed:
        patch = Patch(_RETRIEVERS, f"BaseRetriever.{method}", Stage.RETRIEVE, name="retrieve")
        begin = beginning(original, patch, recorder)

        def begin_own(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
            with guarded("timing a retriever", recorder.on_fault):
                if any(hasattr(args[0], name) for name in _ASKS):
                    return None
            return begin(args, kwargs)

        return timed(original, begin_own)

    return build


class LangchainHook(Hook):
    """Times the leaves that no library below them tells of; chains and graphs explain nothing."""

    requires = ("langchain-core >= 0.3",)
    patches = (
        Replacement("langchain_core.tools.base", "BaseTool.run", _time_tools),
        Replacement("langchain_core.tools.base", "BaseTool.arun", _time_tools),
        Replacement(_RETRIEVERS, "BaseRetriever.invoke", _time_retrievers("invoke")),
        Replacement(_RETRIEVERS, "BaseRetriever.ainvoke", _time_retrievers("ainvoke")),
        Patch(
            "langchain_core.vectorstores.in_memory",
            "InMemoryVectorStore._similarity_search_with_score_by_vector",
            Stage.RETRIEVE,
            name="similarity_search",
        ),
        *(
            Patch(
                "langchain_core.caches",
                f"BaseCache.{method}",
                Stage.CACHE,
                name=name,
                within=True,
                later=True,
            )
            for method, name in (
                ("lookup", "cache lookup"),
                ("alookup", "cache lookup"),
                ("update", "cache update"),
                ("aupdate", "cache update"),
            )
        ),
        first_of_each_span(
            Patch(
                "langchain_text_splitters.base",
                "TextSplitter.split_text",
                Stage.PREPROCESS,
                within=True,
                later=True,
            )
        ),
    )
