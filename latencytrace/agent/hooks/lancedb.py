"""Searches and writes made with `lancedb`, in the process, sync and async."""

from dataclasses import replace

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


class LancedbHook(Hook):
    """Times where a query is carried out, which all forms of its results go through."""

    requires = ("lancedb >= 0.25",)
    patches = (
        *(
            replace(patch, name="search")
            for patch in _QUERY.calls("lancedb.query", *_BUILDERS, searches=("to_arrow",))
        ),
        *_TABLE.calls(
            "lancedb.table",
            "LanceTable",
            "AsyncTable",
            writes=("add", "update", "delete", "_do_merge"),
        ),
    )
