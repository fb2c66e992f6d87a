"""Searches and writes of vector databases whose clients a table describes."""

from typing import Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import (
    Arguments,
    Hook,
    HookAttributes,
    Patch,
    Replacement,
    Timed,
)
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Call, timed
from latencytrace.agent.toolkit.models.calls import count_of
from latencytrace.agent.toolkit.vector_database import VectorDatabase
from latencytrace.model import semconv
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


_VESPA = VectorDatabase(system="vespa", collection="schema", top_k=("hits",))


class VespaHook(Hook):
    """Times the methods that those of the application go through."""

    requires = ("pyvespa >= 0.40",)
    patches = _VESPA.calls(
        "vespa.application",
        "VespaSync",
        searches=("query", "get_data"),
        writes=("feed_data_point", "update_data", "delete_data"),
    )


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


_TURBOPUFFER = VectorDatabase(
    system="turbopuffer",
    collection="self._client.default_namespace",
    top_k=("top_k", "limit"),
    vectors=("queries", "upsert_rows"),
)


class TurbopufferHook(Hook):
    """Times a namespace's methods of both clients."""

    requires = ("turbopuffer >= 1.0",)
    patches = _TURBOPUFFER.calls(
        "turbopuffer.resources.namespaces",
        "NamespacesResource",
        "AsyncNamespacesResource",
        searches=("query", "multi_query"),
        writes=("write",),
    )


_MEILISEARCH = VectorDatabase(
    system="meilisearch", collection="self.uid", vectors=("queries", "documents")
)
_SEARCHED = (
    "search",
    "facet_search",
    "get_document",
    "get_documents",
    "get_similar_documents",
)
_WRITTEN = (
    "add_documents",
    "add_documents_raw",
    "update_documents",
    "update_documents_raw",
    "delete_document",
    "delete_documents",
    "delete_all_documents",
)


class MeilisearchHook(Hook):
    """Times the methods of an index, and several searches at once."""

    requires = ("meilisearch >= 0.36",)
    patches = (
        *_MEILISEARCH.calls("meilisearch.index", "Index", searches=_SEARCHED, writes=_WRITTEN),
        *_MEILISEARCH.calls("meilisearch.client", "Client", searches=("multi_search",)),
    )


_QUERY = VectorDatabase(system="lancedb", collection="self._table.name", top_k=("self._limit",))
_TABLE = VectorDatabase(system="lancedb", collection="self.name", vectors=("data",))
_BUILDERS = (
    "LanceVectorQueryBuilder",
    "LanceFtsQueryBuilder",
    "LanceHybridQueryBuilder",
    "LanceEmptyQueryBuilder",
    "AsyncQueryBase",
)
_READERS = (  # their `to_batches` does not go through `to_arrow`
    "LanceVectorQueryBuilder",
    "LanceEmptyQueryBuilder",
    "AsyncQueryBase",
    "AsyncHybridQuery",
)


class LancedbHook(Hook):
    """Times where a query is carried out; of a reader, until it is handed out."""

    requires = ("lancedb >= 0.25",)
    patches = (
        *(
            patch._replace(name="search")
            for patch in (
                *_QUERY.calls("lancedb.query", *_BUILDERS, searches=("to_arrow",)),
                *_QUERY.calls(
                    "lancedb.query", *_READERS, searches=("to_batches",), optional=("to_batches",)
                ),
            )
        ),
        *_TABLE.calls(
            "lancedb.table",
            "LanceTable",
            "AsyncTable",
            writes=("add", "update", "delete", "_do_merge"),
        ),
    )


_USEARCH = VectorDatabase(
    system="usearch", collection="self.path", top_k=("count",), vectors=("vectors",)
)


def _describe(arguments: Arguments) -> HookAttributes:
    index: Any = arguments["self"]
    return {**_USEARCH.describe(arguments), semconv.INDEX_SIZE: len(index)}


class UsearchHook(Hook):
    """Times searches of an index."""

    requires = ("usearch >= 2.9",)
    patches = (Patch("usearch.index", "Index.search", Stage.RETRIEVE, _describe),)


_HNSWLIB = VectorDatabase(system="hnswlib", collection="", top_k=("k",), vectors=("data",))
_NAMES = ("self", "data", "k")


def time_searches(recorder: Recorder, original: Timed) -> Timed:
    """Time searches: the method in C++ has no signature to read."""

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        with guarded("timing a search", recorder.on_fault):
            if recorder.suppressed() or recorder.inside(Stage.RETRIEVE):
                return None
            arguments = {"k": 1, **dict(zip(_NAMES, args, strict=False)), **kwargs}
            noted: HookAttributes = _HNSWLIB.describe(arguments)
            noted[semconv.INDEX_SIZE] = int(args[0].get_current_count())
            timing = recorder.start("knn_query", Stage.RETRIEVE, noted)
            return Call(Stage.RETRIEVE, timing, recorder.on_fault)
        return None

    return timed(original, begin)


class HnswlibHook(Hook):
    """Times searches of both classes of index."""

    requires = ("hnswlib >= 0.7",)
    patches = (
        Replacement("hnswlib", "Index.knn_query", time_searches),
        Replacement("hnswlib", "BFIndex.knn_query", time_searches),
    )
