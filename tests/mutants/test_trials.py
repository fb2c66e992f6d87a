"""A fault is tried in a copy, by the tests that have to notice it; the checkout stays as it is."""

from pathlib import Path

import pytest

from tests.mutants.faults import Fault, faults
from tests.mutants.trials import Copy
from tests.support.repository.tree import ROOT

FILE = "latencytrace/agent/toolkit/http/proxy_queue.py"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("copy"))


def fault_of(before: str) -> Fault:
    found = faults(FILE, (ROOT / FILE).read_text())
    return next(one for one in found if one.before == before and one.kind == "arithmetic")


@pytest.mark.long
def test_a_fault_that_the_tests_notice_is_killed_by_one_of_them(copy: Copy) -> None:
    before = (ROOT / FILE).read_bytes()

    trial = copy.tried(fault_of("_UNITS_NS[0] // unit_ns"))

    assert trial.outcome == "killed"
    assert trial.by.startswith("tests/agent/toolkit/http/test_proxy_queue.py::")
    assert (ROOT / FILE).read_bytes() == before


@pytest.mark.long
def test_tests_pass_in_the_copy_without_a_fault(copy: Copy) -> None:
    assert copy.run(["tests/agent/toolkit/http/test_proxy_queue.py"], plain=True) == ("alive", "")


def test_the_mirror_of_a_file_is_run_first_and_then_who_imports_it(copy: Copy) -> None:
    tests = copy.tests_of("latencytrace/analysis/weighted.py")

    assert copy.tests_of(FILE)[0] == "tests/agent/toolkit/http/test_proxy_queue.py"
    assert "tests/analysis/tail/test_tail.py" in tests
    assert "tests/analysis/compare/test_comparison.py" in tests


def test_what_uses_a_file_through_another_one_is_run_where_the_nearer_tests_pass(
    copy: Copy,
) -> None:
    further = copy.further_tests_of("latencytrace/agent/toolkit/http/server.py")

    assert "tests/agent/hooks/test_uvicorn.py" in further  # its hook is that of ASGI
    assert not {*further} & {*copy.tests_of("latencytrace/agent/toolkit/http/server.py")}


@pytest.mark.long
def test_a_fault_after_which_the_process_crashes_at_its_end_is_killed(
    copy: Copy, tmp_path: Path
) -> None:
    crashing = tmp_path / "test_crashing.py"
    crashing.write_text(
        "import atexit, os\n\n\n"
        "def test_one():\n    atexit.register(os.kill, os.getpid(), 11)\n    assert False\n"
    )

    outcome, _ = copy.run([str(crashing)], plain=False)

    assert outcome == "killed"


def test_a_fault_is_made_outside_the_checkout(tmp_path: Path) -> None:
    Copy(tmp_path)

    assert (tmp_path / "pyproject.toml").is_file()
    assert not (tmp_path / ".git").exists()
