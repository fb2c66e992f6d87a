"""Searches and writes made with `typesense`, sync and async."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.vector_database import VectorDatabase

_TYPESENSE = VectorDatabase(
    system="typesense", collection="self.collection_name", vectors=("search_queries",)
)


class TypesenseHook(Hook):
    """Times the methods of both clients."""

    requires = ("typesense >= 2.0",)
    patches = tuple(
        patch
        for package, prefix in (("sync", ""), ("async_", "Async"))
        for patch in (
            *_TYPESENSE.calls(
                f"typesense.{package}.documents",
                f"{prefix}Documents",
                searches=("search",),
                writes=("create", "upsert", "update", "import_", "delete"),
            ),
            *_TYPESENSE.calls(
                f"typesense.{package}.multi_search", f"{prefix}MultiSearch", searches=("perform",)
            ),
        )
    )
