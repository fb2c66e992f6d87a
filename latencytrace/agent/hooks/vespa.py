"""Queries and writes made with the synchronous client of `pyvespa`."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.vector_database import VectorDatabase

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
