"""The example of "Write a hook": short, whole, tested, and found in a package of anybody."""

import re
import sys
from pathlib import Path

import pytest
from pymilvus import MilvusClient

from latencytrace.agent.guard import raise_fault
from latencytrace.agent.timing.discovery import installed_hooks
from latencytrace.model import Stage
from tests.support.agent.hooked import hooked

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pages" / "write-a-hook.md").read_text()
MOST_LINES = 60


def blocks(language: str) -> list[str]:
    """The page's code in one language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_hook_of_the_page_is_ours_and_short() -> None:
    (hook, _) = blocks("python")

    assert hook == (ROOT / "latencytrace/agent/hooks/milvus.py").read_text()
    assert hook.count("\n") < MOST_LINES


def test_the_test_of_the_page_is_run() -> None:
    (_, test) = blocks("python")

    assert test in (ROOT / "tests/agent/hooks/test_milvus.py").read_text()


def test_a_package_of_ones_own_brings_the_hook_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (declared,) = blocks("toml")
    metadata = tmp_path / "my_hooks-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-hooks\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        declared.replace("[project.entry-points.", "[").replace('"', "")
    )
    (tmp_path / "my_hooks.py").write_text(blocks("python")[0])
    monkeypatch.syspath_prepend(tmp_path)

    ((name, hook),) = installed_hooks(["my_milvus"], raise_fault)
    assert isinstance(hook, type)  # no listed one: only ours are
    client = MilvusClient(str(tmp_path / "milvus.db"))
    client.create_collection("passages", dimension=2)
    with hooked(hook) as spans:
        client.search("passages", data=[[1.0, 0.0]])
    client.close()

    assert (name, hook.__module__) == ("my_milvus", "my_hooks")
    assert spans.stages == [Stage.RETRIEVE]
    sys.modules.pop("my_hooks")
