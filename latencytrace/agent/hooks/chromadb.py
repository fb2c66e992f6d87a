"""Vector searches made with `chromadb`, in the process or over HTTP, sync and async."""

from collections.abc import Sized

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_CLIENTS = (
    ("chromadb.api.models.Collection", "Collection"),
    ("chromadb.api.models.AsyncCollection", "AsyncCollection"),
)
_METHODS = (
    ("query", Stage.RETRIEVE),
    ("get", Stage.RETRIEVE),
    ("peek", Stage.RETRIEVE),
    ("add", Stage.DATABASE),
    ("upsert", Stage.DATABASE),
    ("update", Stage.DATABASE),
    ("delete", Stage.DATABASE),
)


def describe_search(arguments: Arguments) -> HookAttributes:
    """Note the collection searched and how many records were wanted, never the query itself."""
    attributes: HookAttributes = {
        semconv.DB_SYSTEM_NAME: "chroma",
        semconv.DB_COLLECTION_NAME: str(getattr(arguments["self"], "name", "")),
    }
    limit = arguments.get("n_results", arguments.get("limit"))
    if isinstance(limit, int):
        attributes[semconv.GEN_AI_RETRIEVAL_TOP_K] = limit
    return attributes


def describe_embedding(arguments: Arguments) -> HookAttributes:
    """Note how many texts or images there are, never what is in them."""
    inputs = arguments.get("input")
    return {semconv.BATCH_SIZE: len(inputs)} if isinstance(inputs, Sized) else {}


def _collection(module: str, kind: str) -> tuple[Patch, ...]:
    return (
        *(Patch(module, f"{kind}.{name}", stage, describe_search) for name, stage in _METHODS),
        Patch(module, f"{kind}.search", Stage.RETRIEVE, describe_search, optional=True),
    )


class ChromadbHook(Hook):
    """Times a collection's methods, and within them the embedding of texts, whoever does it."""

    requires = ("chromadb >= 0.6", "chromadb-client >= 0.6")
    patches = (
        *(patch for client in _CLIENTS for patch in _collection(*client)),
        Patch(
            "chromadb.api.models.CollectionCommon",
            "CollectionCommon._embed",
            Stage.EMBED,
            describe_embedding,
        ),
    )
