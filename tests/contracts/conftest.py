"""The example plugins of the documentation beside our own: they keep the same contracts."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2] / "examples" / "plugins" / "pyproject.toml"
EXAMPLES: Mapping[str, Mapping[str, str]] = tomllib.loads(PROJECT.read_text())["project"][
    "entry-points"
]


@pytest.fixture(autouse=True, scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Have them installed: known by the entry points of a distribution, in this folder."""
    folder = tmp_path_factory.mktemp("installed")
    info = folder / "latencytrace_examples-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: latencytrace-examples\n")
    lines: list[str] = []
    for group, named in EXAMPLES.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in named.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        yield folder
