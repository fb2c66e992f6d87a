"""Searches and writes made with `lancedb`, in the process, sync and async."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.vector_database import VectorDatabase

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
