"""The example plugins of the documentation beside our own: they keep the same contracts."""

import itertools
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest

from latencytrace.plugins import STORES, load_plugin
from latencytrace.service.store import Store, open_store
from tests.support.clickhouse.front import ClickHouseFront

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


StoreOpener = Callable[[str, Path], Store]


@pytest.fixture(scope="module")
def open_named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreOpener]:
    """Opens a store by the name of its plugin; where it takes a server, one serves them all."""
    with ExitStack() as running:
        databases = itertools.count(1)
        fronts: list[ClickHouseFront] = []

        def opened(name: str, folder: Path) -> Store:
            if name != "clickhouse":
                return cast(type[Store], load_plugin(STORES, name)).open(folder)
            if not fronts:
                engine = tmp_path_factory.mktemp("clickhouse")
                fronts.append(running.enter_context(ClickHouseFront(engine)))
            return open_store(fronts[0].url(f"of_test_{next(databases)}"), folder)

        yield opened
