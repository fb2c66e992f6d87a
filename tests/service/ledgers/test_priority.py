"""The service beside the programs that it shares a machine with."""

import os
from pathlib import Path

import numpy as np
import pytest

from latencytrace.service.ledgers.priority import MUCH_SPANS, FreedMemory

MB = 1_000_000


def resident_bytes() -> int:
    """The memory of this process that is in use by it, as the system sees it."""
    _, pages, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return (pages - shared) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux says so")
def test_what_lies_free_between_what_is_used_is_given_back_once_there_is_no_more_work() -> None:
    freed = FreedMemory()
    blocks = [np.ones(12_500) for _ in range(1000)]  # of 100 kB, which are not mapped one by one
    used = blocks[::20]
    del blocks
    given = []
    for spans in (0, MUCH_SPANS, 1, 0):
        before = resident_bytes()
        freed.after(spans)
        given.append(before - resident_bytes() > 50 * MB)

    assert given == [False, False, False, True]
    assert all(block.all() for block in used)
