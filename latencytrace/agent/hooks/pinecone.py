"""Searches and writes made with `pinecone`, over HTTP and gRPC, sync and async."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.vector_database import VectorDatabase

_PINECONE = VectorDatabase(
    system="pinecone",
    collection="namespace",
    top_k=("top_k", "query.top_k"),
    vectors=("vectors", "records", "ids"),
)
_SEARCHES = ("query", "search", "fetch")
_WRITES = ("upsert", "update", "delete", "upsert_records")
_NEWER = ("search", "upsert_records")


class PineconeHook(Hook):
    """Times the methods of an index, whatever it is reached by."""

    requires = ("pinecone >= 9",)
    patches = tuple(
        patch
        for module, owner in (
            ("pinecone.index", "Index"),
            ("pinecone.async_client.async_index", "AsyncIndex"),
            ("pinecone.grpc", "GrpcIndex"),
        )
        for patch in _PINECONE.calls(
            module, owner, searches=_SEARCHES, writes=_WRITES, optional=_NEWER
        )
    )
