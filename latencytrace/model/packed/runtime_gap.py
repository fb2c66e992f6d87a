"""Gaps of a request that its process tells: parts of stage `runtime`, and waits for results."""

from enum import StrEnum

from latencytrace.model.stage import Stage

PROCESSOR_WAIT = "wait for a processor"  # the title of such a wait: sent as a number


class RuntimeGap(StrEnum):
    """A name as `latencytrace.runtime` packs it: without blanks, for words are content there."""

    GARBAGE_COLLECTION = "garbage_collection"
    EVENT_LOOP_LAG = "event_loop_lag"
    THREAD_POOL_WAIT = "thread_pool_wait"
    RESULT_WAIT = "result_wait"  # of another thread or task: `queue`


_TITLES = {
    RuntimeGap.GARBAGE_COLLECTION: "garbage collection",
    RuntimeGap.EVENT_LOOP_LAG: "event-loop lag",
    RuntimeGap.THREAD_POOL_WAIT: "thread-pool wait",
    RuntimeGap.RESULT_WAIT: "wait for another thread or task",
}


def stage_of_gap(name: str) -> Stage:
    """Return the stage of its segments."""
    return Stage.QUEUE if name == RuntimeGap.RESULT_WAIT else Stage.RUNTIME


def title_of_gap(name: str) -> str:
    """The name of its segments: `event-loop lag`; of one that we do not know, its own words."""
    return _TITLES[RuntimeGap(name)] if name in _TITLES else name.replace("_", " ")
