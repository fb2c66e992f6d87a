"""Searches and writes made with version 4 of `weaviate-client`, sync and async."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.vector_database import VectorDatabase

_SEARCH = VectorDatabase(
    system="weaviate", collection="request.collection", top_k=("request.limit",)
)
_WRITE = VectorDatabase(system="weaviate", collection="request.collection")
_MODULE = "weaviate.connect.v4"
_CONNECTIONS = ("ConnectionSync", "ConnectionAsync")


class WeaviateHook(Hook):
    """Times the calls over gRPC that queries of every kind become, and written batches."""

    requires = ("weaviate-client >= 4.16",)
    patches = tuple(
        patch._replace(name=patch.target.rpartition("grpc_")[2])
        for patch in (
            *_SEARCH.calls(_MODULE, *_CONNECTIONS, searches=("grpc_search",)),
            *_WRITE.calls(
                _MODULE, *_CONNECTIONS, writes=("grpc_batch_objects", "grpc_batch_delete")
            ),
        )
    )
