"""Calls of vector databases: which of them search, and what is noted of each."""

from collections.abc import Iterable, Sized
from dataclasses import dataclass
from typing import Any, TypeGuard

from latencytrace.agent.timing.hook import Arguments, HookAttributes, Patch
from latencytrace.model import semconv
from latencytrace.model.stage import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorDatabase:
    """The client library of a vector database; of a query only its sizes are noted.

    Args:
        system: The value of `db.system.name`.
        collection: The argument that names the collection, or where it lies in one: `self.name`.
        top_k: Arguments that say how many results are wanted; the first that is there counts.
        vectors: Arguments that may hold several vectors or texts to search for, or rows to write.
    """

    system: str
    collection: str
    top_k: tuple[str, ...] = ("limit",)
    vectors: tuple[str, ...] = ()

    def calls(
        self,
        module: str,
        *owners: str,
        searches: Iterable[str] = (),
        writes: Iterable[str] = (),
        optional: Iterable[str] = (),
    ) -> tuple[Patch, ...]:
        """Patch the methods of its clients.

        Args:
            owners: Classes; of async ones the methods are of the same names.
            searches: Methods of stage `retrieve`.
            writes: Methods of stage `database`.
            optional: Those of both that not every supported version has.
        """
        stages = {
            **dict.fromkeys(searches, Stage.RETRIEVE),
            **dict.fromkeys(writes, Stage.DATABASE),
        }
        missing = frozenset(optional)
        return tuple(
            Patch(module, f"{owner}.{method}", stage, self.describe, optional=method in missing)
            for owner in owners
            for method, stage in stages.items()
        )

    def describe(self, arguments: Arguments) -> HookAttributes:
        """Note the collection, and how many results are wanted, never the query."""
        attributes: HookAttributes = {semconv.DB_SYSTEM_NAME: self.system}
        collection = _found(arguments, self.collection)
        if collection is not None and str(collection):
            attributes[semconv.DB_COLLECTION_NAME] = str(collection)
        wanted = next((each for name in self.top_k if (each := _found(arguments, name))), None)
        if isinstance(wanted, int):
            attributes[semconv.GEN_AI_RETRIEVAL_TOP_K] = wanted
        counts = (len(each) for name in self.vectors if _is_many(each := arguments.get(name)))
        number = next(counts, 0)
        if number:
            attributes[semconv.DB_OPERATION_BATCH_SIZE] = number
        return attributes


def _is_many(vectors: object) -> TypeGuard[Sized]:
    """Say whether there are several of them, as a batch has by the conventions."""
    if not isinstance(vectors, Sized) or isinstance(vectors, str) or len(vectors) <= 1:
        return False
    if isinstance(vectors, list):
        return not isinstance(vectors[0], (int, float))  # the numbers of one
    return int(getattr(vectors, "ndim", 2)) > 1


def _found(arguments: Arguments, path: str) -> Any:
    name, *parts = path.split(".")
    found = arguments.get(name)
    for part in parts:
        found = getattr(found, part, None)
    return found
