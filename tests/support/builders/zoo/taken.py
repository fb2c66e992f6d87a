"""Posts that are held in memory, as a service holds them."""

from collections.abc import Mapping, Sequence

from latencytrace.service.ledgers.posts import Posts
from latencytrace.service.ledgers.span_parts import Parts
from latencytrace.service.otlp.traces import CheckedRequest


class Taken:
    """The traces of some posts.

    Args:
        checked: The posts.
    """

    def __init__(self, checked: Sequence[CheckedRequest]) -> None:
        memory = Posts()
        for one in checked:
            memory.add(one.columns, one.rows)
        traces = dict.fromkeys(trace_id for one in checked for trace_id in one.rows)
        self.held: Mapping[str, Parts] = {one: memory.parts(one) for one in traces}
