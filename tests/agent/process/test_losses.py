"""Spans that children could not send are counted by the process that they come from."""

import os
from pathlib import Path

import pytest

from latencytrace.agent.process.forks import ChildLosses
from tests.support.servers.command_line import python
from tests.support.servers.nowhere import NOWHERE

LOSES = """
import os, sys
import latencytrace

os.environ["OTEL_BSP_SCHEDULE_DELAY"] = "60000"  # nothing is sent before the end
latencytrace.instrument("loses", endpoint=sys.argv[1], hooks=("celery", "exits"))
if sys.argv[2] == "billiard":
    from billiard.pool import Pool
else:
    from multiprocessing import Pool

def work(number):
    with latencytrace.stage("task"):
        return number

if __name__ == "__main__":
    with Pool(2, maxtasksperchild=1) as pool:
        pool.map(work, range(4), 1)
        pool.close()
        pool.join()
    print(latencytrace.agent_status().spans_dropped)
"""


def child(losses: ChildLosses, *spans: int) -> None:
    """Count in a child of a child, and end it."""
    losses.before_fork()
    pid = os.fork()
    if not pid:
        if len(spans) > 1:
            child(losses, *spans[1:])
        losses.add(spans[0])
        os._exit(0 if losses.spans == 0 else 1)
    _, status = os.waitpid(pid, 0)
    assert status == 0


def test_what_children_and_their_children_lose_adds_up() -> None:
    losses = ChildLosses()
    child(losses, 3)
    child(losses, 4, 5)
    losses.add(100)  # no child: there is nobody to tell

    assert losses.spans == 12


def test_a_process_that_forks_no_child_counts_nothing() -> None:
    losses = ChildLosses()
    losses.add(1)

    assert losses.spans == 0


@pytest.mark.parametrize("kind", ["multiprocessing", "billiard"])
def test_processes_of_a_pool_that_are_replaced_count_what_nobody_took(
    tmp_path: Path, kind: str
) -> None:
    script = tmp_path / "loses.py"
    script.write_text(LOSES)

    done = python(script, NOWHERE, kind)

    assert done.stdout == "4\n", done.stderr


ENDS = """
import sys
import latencytrace

latencytrace.instrument("ends", endpoint=sys.argv[1])
with latencytrace.stage("last"):
    pass
if sys.argv[2] == "stops":
    latencytrace.uninstrument()
"""


@pytest.mark.parametrize("way", ["exits", "stops"])
def test_a_program_without_a_parent_says_what_nobody_took(tmp_path: Path, way: str) -> None:
    script = tmp_path / "ends.py"
    script.write_text(ENDS)

    done = python(script, NOWHERE, way)

    assert f"latencytrace: 1 spans that {NOWHERE}/v1/traces did not take" in done.stderr
    assert done.stderr.count("are lost") == 1
