"""Calls of MongoDB with `pymongo`, sync and async; searches by vectors or text apart."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.wrapping import named_arguments
from latencytrace.agent.toolkit.database_calls import DatabaseCall, timed_database_calls
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_SEARCHES: Final = ("$vectorSearch", "$search", "$rankFusion", "$scoreFusion")
_METHODS: Final = (
    "aggregate", "bulk_write", "count_documents", "delete_many", "delete_one", "distinct",
    "find_one", "find_one_and_delete", "find_one_and_replace", "find_one_and_update",
    "insert_many", "insert_one", "replace_one", "update_many", "update_one",
)  # fmt: skip
_CURSORS: Final = (("cursor", "Cursor"), ("command_cursor", "CommandCursor"))


def _called(name: str) -> Callable[[Timed], Callable[..., DatabaseCall]]:
    """Make what reads a call of a collection's method."""

    def reading(original: Timed) -> Callable[..., DatabaseCall]:
        arguments_of = named_arguments(original)

        def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> DatabaseCall:
            arguments = arguments_of(args, kwargs)
            noted = _noted(name, str(args[0].name))
            searched = _searched(arguments)
            wanted = searched.get("limit") if searched is not None else None
            if isinstance(wanted, int):
                noted[semconv.GEN_AI_RETRIEVAL_TOP_K] = wanted
            stage = Stage.DATABASE if searched is None else Stage.RETRIEVE
            return DatabaseCall(f"{name} {args[0].name}", stage, noted)

        return read

    return reading


def _fetched(_: Timed) -> Callable[..., DatabaseCall]:
    """Make what reads how a cursor asks for its first or next documents."""

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> DatabaseCall:
        operation = args[1] if len(args) > 1 else kwargs["operation"]
        name, collection = str(operation.name), str(operation.coll)
        return DatabaseCall(f"{name} {collection}", Stage.DATABASE, _noted(name, collection))

    return read


def _noted(name: str, collection: str) -> HookAttributes:
    return {
        semconv.DB_SYSTEM_NAME: "mongodb",
        semconv.DB_OPERATION_NAME: name,
        semconv.DB_COLLECTION_NAME: collection,
    }


def _searched(arguments: Arguments) -> Mapping[str, Any] | None:
    """Return what a pipeline says of its search; None: it has none."""
    pipeline = arguments.get("pipeline")
    first = pipeline[0] if isinstance(pipeline, list) and pipeline else None
    if not isinstance(first, Mapping):
        return None
    return next(
        (found for name in _SEARCHES if isinstance(found := first.get(name), Mapping)), None
    )


class PymongoHook(Hook):
    """Times collections' methods, and of a cursor, which is lazy, where it asks the server."""

    requires = ("pymongo >= 4.9",)
    patches = tuple(
        Replacement(f"pymongo.{kind}.{module}", f"{prefix}{target}", timed_database_calls(reading))
        for kind, prefix in (("synchronous", ""), ("asynchronous", "Async"))
        for module, target, reading in (
            *(("collection", f"Collection.{name}", _called(name)) for name in _METHODS),
            *((module, f"{owner}._send_message", _fetched) for module, owner in _CURSORS),
        )
    )
