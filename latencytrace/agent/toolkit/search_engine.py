"""Requests to a search engine, by their method and path: searches, and any other."""

from collections.abc import Mapping
from typing import Any, Final

from latencytrace.agent.timing.hook import Arguments, HookAttributes
from latencytrace.agent.toolkit.database_calls import DatabaseCall
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_SEARCHES: Final = frozenset({"_search", "_msearch", "_knn_search", "_async_search"})
_ASKED_FOR: Final = (("size",), ("knn", "k"))  # how many results, in a body


def described(system: str, arguments: Arguments, path: str) -> DatabaseCall:
    """Note the operation, the index, and how many results are wanted, never the query.

    Args:
        system: The value of `db.system.name`.
        arguments: With the method and the body.
        path: Such as `/passages/_search`; ids within are not noted.
    """
    parts = path.partition("?")[0].strip("/").split("/")
    operation = next((part for part in parts if part.startswith("_")), "")
    noted: HookAttributes = {semconv.DB_SYSTEM_NAME: system}
    if parts[0] and not parts[0].startswith("_"):
        noted[semconv.DB_COLLECTION_NAME] = parts[0]
    name = operation.lstrip("_") or str(arguments.get("method", "")).lower()
    noted[semconv.DB_OPERATION_NAME] = name
    if operation not in _SEARCHES:
        return DatabaseCall(name, Stage.DATABASE, noted)
    wanted = _wanted(arguments.get("body"))
    if wanted is not None:
        noted[semconv.GEN_AI_RETRIEVAL_TOP_K] = wanted
    return DatabaseCall(name, Stage.RETRIEVE, noted)


def _wanted(body: Any) -> int | None:
    for path in _ASKED_FOR:
        found = body
        for part in path:
            found = found.get(part) if isinstance(found, Mapping) else None
        if isinstance(found, int):
            return found
    return None
