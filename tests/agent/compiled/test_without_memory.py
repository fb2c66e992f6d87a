"""A request goes on, or ends in the program's own error, whichever allocation fails."""

import subprocess
import sys

import pytest


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="CPython itself ends where one fails in a generator"
)
def test_no_allocation_that_fails_ends_the_process() -> None:
    pytest.importorskip("_testcapi", reason="some builds of CPython leave it out")
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.support.programs.without_memory"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert all(int(failed) > 10 for failed in done.stdout.split())
