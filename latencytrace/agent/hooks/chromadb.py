"""Vector searches made with `chromadb`, in the process or over HTTP, sync and async."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.models.calls import count_of
from latencytrace.agent.toolkit.vector_database import VectorDatabase
from latencytrace.model.stage import Stage

_CHROMA = VectorDatabase(system="chroma", collection="self.name", top_k=("n_results", "limit"))


def _calls(name: str) -> tuple[Patch, ...]:
    return _CHROMA.calls(
        f"chromadb.api.models.{name}",
        name,
        searches=("query", "get", "peek", "search"),
        writes=("add", "upsert", "update", "delete"),
        optional=("search",),
    )


class ChromadbHook(Hook):
    """Times a collection's methods, and within them the embedding of texts by any function."""

    requires = ("chromadb >= 0.6", "chromadb-client >= 0.6")
    patches = (
        *_calls("Collection"),
        *_calls("AsyncCollection"),
        Patch(
            "chromadb.api.models.CollectionCommon",
            "CollectionCommon._embed",
            Stage.EMBED,
            count_of("input"),
        ),
    )
