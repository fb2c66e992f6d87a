"""The parts of the stage `runtime`: how a process kept its requests waiting."""

from enum import StrEnum


class RuntimeGap(StrEnum):
    """A name as `latencytrace.runtime` packs it: without blanks, for words are content there."""

    GARBAGE_COLLECTION = "garbage_collection"
    EVENT_LOOP_LAG = "event_loop_lag"
    THREAD_POOL_WAIT = "thread_pool_wait"


_TITLES = {
    RuntimeGap.GARBAGE_COLLECTION: "garbage collection",
    RuntimeGap.EVENT_LOOP_LAG: "event-loop lag",
    RuntimeGap.THREAD_POOL_WAIT: "thread-pool wait",
}


def title_of_gap(name: str) -> str:
    """The name of its segments: `event-loop lag`; of one that we do not know, its own words."""
    return _TITLES[RuntimeGap(name)] if name in _TITLES else name.replace("_", " ")
