"""`latencytrace serve` ends in time, whatever its threads do."""

from tests.support.servers.command_line import python

BUSY = """
import threading
from latencytrace.cli.commands import serve
serve.KERNELS_GRACE_S = 3600
serve._end_in_time(0.01)
threading.Event().wait()
"""


def test_what_is_under_way_when_the_time_is_over_is_cut_short_and_said_so() -> None:
    ended = python("-c", BUSY)

    assert ended.returncode == 1
    assert "still under way 0.01 s after the signal to stop: it is cut short" in ended.stderr
