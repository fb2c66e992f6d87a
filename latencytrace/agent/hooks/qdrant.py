"""Vector searches made with `qdrant-client`."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.vector_database import VectorDatabase


class QdrantHook(Hook):
    """Times the methods that every search goes through, in both clients."""

    requires = ("qdrant-client >= 1.10",)
    patches = VectorDatabase(system="qdrant", collection="collection_name").calls(
        "qdrant_client",
        "QdrantClient",
        "AsyncQdrantClient",
        searches=(
            "query_points",
            "query_batch_points",
            "query_points_groups",
            "scroll",
            "retrieve",
        ),
        writes=("upsert",),
    )
