"""The work that a message asks for, whatever its headers hold."""

import pytest

from latencytrace.agent.toolkit.queues.messages import W3C, begun_work
from tests.support.agent.hooked import Spans


@pytest.mark.parametrize(
    "header",
    [5, -1.5, b"\xff", "", "\x00", "\ud800", "é", "x" * 100_000, ["00-1"], {"a": 1}, object()],
    ids=lambda header: repr(header)[:20],
)
def test_work_is_timed_whatever_carries_its_trace(header: object) -> None:
    spans = Spans()  # where a fault of ours is raised

    timing = begun_work(spans.recorder, "work", dict.fromkeys(W3C, header))

    assert timing is not None
    timing.end()
    assert spans.names == ["work"]
