"""What is told of a run of the hooks' contract."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts.hooks_held import read, told

ROOT = Path(__file__).parents[2]


def report(folder: Path, hook: str) -> Path:
    """Of the contract's tests of one hook, run for it."""
    path = folder / f"{hook}.xml"
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "tests/contracts/test_every_hook.py"),
            *("-k", f"same_objects and [{hook}]", f"--junitxml={path}"),
        ],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return path


@pytest.mark.long
def test_a_hook_is_held_to_its_contract_where_its_library_is_there(tmp_path: Path) -> None:
    reports = [read(report(tmp_path, "httpx")), read(report(tmp_path, "threads"))]

    text, wrong = told(reports, ["httpx", "threads", "mlserver"])

    assert "| httpx | 1 | 0 |" in text
    assert "| `httpx` | httpx " in text
    assert "| `threads` | the standard library |" in text
    assert wrong == ["mlserver: held to its contract nowhere"]


def test_a_failure_is_told(tmp_path: Path) -> None:
    path = tmp_path / "main.xml"
    path.write_text(
        '<testsuites><testsuite><testcase name="test_it[torch]"><failure/>'
        '<properties><property name="library" value="torch 2"/></properties>'
        "</testcase></testsuite></testsuites>"
    )

    assert told([read(path)], ["torch"])[1] == ["main: test_it[torch] failed"]
