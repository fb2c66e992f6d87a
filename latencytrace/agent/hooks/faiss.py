"""Vector searches made with `faiss`, whatever the class of the index."""

from collections.abc import Sized
from typing import Any

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch
from latencytrace.model import semconv
from latencytrace.model.stage import Stage


def describe_search(arguments: Arguments) -> HookAttributes:
    """Note the kind and size of the index, and how many queries want how many neighbours."""
    index: Any = arguments["self"]
    attributes: HookAttributes = {
        semconv.DB_SYSTEM_NAME: "faiss",
        semconv.INDEX_TYPE: type(index).__name__,
        semconv.INDEX_SIZE: index.ntotal,
    }
    return _noted(attributes, arguments["n"], arguments.get("k"))


def describe_knn(arguments: Arguments) -> HookAttributes:
    """Note the same of a search without an index."""
    queries, vectors = arguments["xq"], arguments["xb"]
    attributes: HookAttributes = {semconv.DB_SYSTEM_NAME: "faiss"}
    if not (isinstance(queries, Sized) and isinstance(vectors, Sized)):
        return attributes
    attributes[semconv.INDEX_SIZE] = len(vectors)
    return _noted(attributes, len(queries), arguments.get("k"))


def _noted(attributes: HookAttributes, queries: Any, wanted: Any) -> HookAttributes:
    attributes[semconv.DB_OPERATION_BATCH_SIZE] = int(queries)
    if wanted is not None:
        attributes[semconv.GEN_AI_RETRIEVAL_TOP_K] = int(wanted)
    return attributes


def _search(target: str, name: str, *, optional: bool = False) -> Patch:
    return Patch(
        "faiss",
        target,
        Stage.RETRIEVE,
        describe_search,
        subclasses=True,
        name=name,
        optional=optional,
    )


class FaissHook(Hook):
    """Times the calls into C++ that faiss keeps beneath its Python methods.

    Each class has its own ones. What lies above them differs: arrays go through faiss's
    methods, tensors through those of `faiss.contrib.torch_utils`, which replace them.
    """

    requires = (
        "faiss-cpu >= 1.7.4",
        "faiss-gpu >= 1.7.2",
        "faiss-gpu-cu12 >= 1.8",
        "faiss >= 1.7",
    )
    patches = (
        _search("Index.search_c", "search"),
        _search("Index.search_ex", "search", optional=True),
        _search("Index.range_search_c", "range_search"),
        _search("Index.search_and_reconstruct_c", "search_and_reconstruct"),
        _search("IndexIVF.search_preassigned_c", "search_preassigned", optional=True),
        _search("IndexBinary.search_c", "search"),
        _search("IndexBinary.range_search_c", "range_search", optional=True),
        Patch("faiss", "knn", Stage.RETRIEVE, describe_knn, optional=True),
    )
