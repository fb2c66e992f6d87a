"""`make test` and `make test-long` leave out no test between them, and CI runs both."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def recipe(target: str) -> str:
    """The commands of a target, as they would be run."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "--dry-run", target],
        cwd=ROOT,
        env=usual,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def choices(target: str) -> set[str]:
    """Which marks its runs of pytest ask for."""
    return set(re.findall(r"pytest .*-m '([^']+)'", recipe(target)))


def test_what_make_test_leaves_out_the_long_ones_have_with_all_examples() -> None:
    (quick,) = choices("test")
    (long,) = choices("test-long")

    assert quick.startswith("not long and ")
    assert long == f"(long or hypothesis) and {quick.removeprefix('not long and ')}"
    assert "--hypothesis-profile=thorough " in recipe("test-long")


def test_coverage_is_of_what_make_test_runs() -> None:
    assert choices("coverage") == choices("test")
    assert " --cov " in recipe("coverage")


def test_make_test_tries_nothing_twice() -> None:
    assert "--last-failed" not in recipe("test")


def test_a_push_runs_it_with_each_python_that_is_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yaml").read_text())
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    supported = [one.rpartition(" :: ")[2] for one in project["classifiers"] if ":: 3." in one]

    assert matrix["python"] == supported
    assert [*matrix["target"], *(one["target"] for one in matrix["include"])] == [
        "test",
        "coverage",
        "test-long",
    ]


def test_continuous_integration_runs_both() -> None:
    run = (ROOT / ".ci" / "run").read_text()

    assert re.findall(r"^make (\S+)", run, re.MULTILINE) == ["test", "test-long"]
    assert "== long tests" in recipe("test-all")
    assert "== documentation" in recipe("test-all")
