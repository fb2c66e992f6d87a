"""Vector searches made with `hnswlib`."""

from typing import Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Call, timed
from latencytrace.agent.toolkit.vector_database import VectorDatabase
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

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
