"""Vector searches made with `usearch`."""

from typing import Any

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch
from latencytrace.agent.toolkit.vector_database import VectorDatabase
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

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
