"""The service beside the programs that it shares a machine with."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from latencytrace.service.ledgers.priority import (
    MUCH_SPANS,
    FreedMemory,
    UnusedCode,
    unchanged_code,
)
from tests.support.servers.command_line import python

MB = 1_000_000
SECOND_NS = 1_000_000_000


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


def test_code_is_given_back_where_much_came_to_be_in_use_and_not_again_at_once() -> None:
    in_use, now_ns, given = [0], [0], []

    def give_back() -> None:
        given.append((now_ns[0], in_use[0]))
        in_use[0] = 10 * MB

    code = UnusedCode(lambda: in_use[0], give_back, lambda: now_ns[0])
    for at_s, bytes_in_use in (
        (0, 90 * MB),
        (6, 150 * MB),
        (7, 300 * MB),
        (12, 100 * MB),
        (18, 120 * MB),
    ):
        now_ns[0], in_use[0] = at_s * SECOND_NS, bytes_in_use
        code.look()

    assert given == [(6 * SECOND_NS, 150 * MB), (18 * SECOND_NS, 120 * MB)]


def test_a_system_that_does_not_say_what_is_in_use_is_left_alone() -> None:
    def unknown() -> int:
        raise FileNotFoundError("/proc")

    UnusedCode(unknown, lambda: pytest.fail("nothing is known")).look()


def test_only_libraries_of_which_no_page_was_changed_are_given_back() -> None:
    mappings = (
        ("10000-20000 r-xp 00000000 fe:01 7   /lib/libthat.so.1", 0),
        ("20000-30000 r--p 00000000 fe:01 7   /lib/libthat.so.1", 4),  # the loader wrote to it
        ("30000-40000 rw-p 00000000 fe:01 7   /lib/libthat.so.1", 0),
        ("40000-50000 r--p 00000000 fe:01 8   /lib/a name.cpython-311.so", 0),
        ("50000-60000 r--s 00000000 fe:01 9   /lib/shared.so", 0),
        ("60000-70000 r--p 00000000 fe:01 9   /data/words.bin", 0),
        ("70000-80000 r-xp 00000000 00:00 0   [vdso]", 0),
        ("7f0000000000-7f0000001000 r-xp 00000000 fe:01 9 /lib/late.so.6.0.30", 0),
    )
    lines = [
        f"{line}\n"
        for mapping, changed in mappings
        for line in (mapping, "Rss:     4 kB", f"Anonymous:    {changed} kB", "VmFlags: rd ex")
    ]

    assert list(unchanged_code(lines)) == [
        (0x10000, 0x20000),
        (0x40000, 0x50000),
        (0x7F0000000000, 0x7F0000001000),
    ]


USED_AGAIN = """
import json, mmap, sys
from pathlib import Path
from latencytrace.service.ledgers.priority import give_back_code
from latencytrace.service.stores.chdb.engine import Engine

def of_files():
    return int(Path("/proc/self/statm").read_text().split()[2]) * mmap.PAGESIZE

engine = Engine.open(Path(sys.argv[1]))
connection = engine.connect()
question = "SELECT sum(number), uniqExact(toString(number)) FROM numbers(100000)"
before, answered = of_files(), connection.query(question, "TSV")
give_back_code()
after = of_files()
assert connection.query(question, "TSV") == answered
engine.close()
print(json.dumps([before, after]))
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux says so")
def test_code_that_was_given_back_runs_as_before(tmp_path: Path) -> None:
    before, after = json.loads(python("-c", USED_AGAIN, tmp_path, check=True).stdout)

    assert before - after > 80 * MB
