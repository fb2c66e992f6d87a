"""Vector searches made with `pymilvus`, against a server or milvus-lite in the process."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.vector_database import VectorDatabase

_MILVUS = VectorDatabase(system="milvus", collection="collection_name", vectors=("data",))
_SEARCHES = ("search", "hybrid_search", "query", "get")
_WRITES = ("insert", "upsert", "delete")


class MilvusHook(Hook):
    """Times the methods of both clients."""

    requires = ("pymilvus >= 2.4",)
    patches = (
        *_MILVUS.calls(
            "pymilvus.milvus_client.milvus_client",
            "MilvusClient",
            searches=_SEARCHES,
            writes=_WRITES,
        ),
        *_MILVUS.calls(
            "pymilvus.milvus_client.async_milvus_client",
            "AsyncMilvusClient",
            searches=_SEARCHES,
            writes=_WRITES,
        ),
    )
