"""What pages list is what there is: settings, stages, metrics and sinks."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from latencytrace.model import RepairKind, Stage
from latencytrace.plugins import HOOKS, SINKS, plugins
from latencytrace.service.answers.gpu_documents import GpuDocument, GpuStageDocument
from latencytrace.service.web.pages.rendering import NAVIGATION
from latencytrace.settings import agent_settings, service_settings, service_token
from tests.support.over_all import over_all
from tests.support.repository.known_metrics import families

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "pages"
SETTING = re.compile(r"(?:LATENCYTRACE|OTEL)_[A-Z_]*[A-Z]")
METRIC = re.compile(r"latencytrace_(?:[a-z]+_)*[a-z]+")
QUOTED = re.compile(r"`([^`]+)`")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
WITH_BACKTICKS = re.compile(r"``[^`].*?``")  # code that holds backticks itself


class Row(NamedTuple):
    """A row of a table: the first cell of its heading, and what its own quotes."""

    heading: str
    names: list[str]


def text_of(page: Path) -> str:
    """A page without its programs."""
    return WITH_BACKTICKS.sub("", FENCED.sub("", page.read_text("utf-8")))


def rows(page: Path) -> Iterator[Row]:
    """The rows of a page's tables."""
    heading = ""
    for line, after in zip(lines := text_of(page).splitlines(), [*lines[1:], ""], strict=True):
        first = line.removeprefix("| ").partition(" | ")[0]
        if after.startswith("| ---"):
            heading = first
        elif line.startswith("| ") and not line.startswith("| ---"):
            yield Row(heading, QUOTED.findall(first))


class Asked(dict[str, str]):
    """An environment that remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override] # of strings
        """Note it."""
        self.names.add(name)
        return default

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return False


def settings_read() -> set[str]:
    """The variables that our code asks for, or names."""
    asked = Asked()
    agent_settings(environ=asked)
    service_settings(environ=asked)
    service_token(asked)
    named = {
        node.value
        for path in (ROOT / "latencytrace").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {name for name in asked.names | named if SETTING.fullmatch(name)}


def test_every_setting_is_documented_and_the_reverse() -> None:
    page = DOCS / "settings.md"
    listed = {name for row in rows(page) for name in row.names if SETTING.fullmatch(name)}
    read = settings_read()

    assert read - set(SETTING.findall(page.read_text())) == set()
    assert listed - read == set()


def test_stages_are_documented_in_their_order() -> None:
    listed = [row.names[0] for row in rows(DOCS / "vocabulary.md") if row.heading == "stage"]

    assert listed == [stage.value for stage in Stage]


def test_every_hook_is_documented_and_the_reverse() -> None:
    names = [row.names for row in rows(DOCS / "hooks.md") if row.heading == "hook"]

    assert {name for row in names for name in row} == {one.name for one in plugins(HOOKS)}


def test_every_repair_is_documented() -> None:
    listed = {
        name for row in rows(DOCS / "traces.md") if row.heading == "repair" for name in row.names
    }

    assert set(RepairKind) - listed == set()


def test_every_page_of_the_navigation_is_documented() -> None:
    listed = {
        name for row in rows(DOCS / "pages.md") if row.heading == "page" for name in row.names
    }

    assert {link.path for link in NAVIGATION} - listed == set()


def test_every_sink_is_documented_and_the_reverse() -> None:
    listed = {row.names[0] for row in rows(DOCS / "alerts.md") if row.heading == "sink"}

    assert {name.partition("=")[0] for name in listed} == {one.name for one in plugins(SINKS)}


def metrics_in(page: Path) -> Iterator[str]:
    """The metrics that a page names in full, or in a table under the beginning of their names."""
    yield from filter(METRIC.fullmatch, map(without_labels, QUOTED.findall(text_of(page))))
    for row in rows(page):
        if found := re.fullmatch(r"`(latencytrace_\w+_)…`.*", row.heading):
            yield from (f"{found[1]}{without_labels(name)}" for name in row.names)


def named_on(page: Path) -> set[str]:
    """The metrics that a page names, also by an end, `_so`, that one in full has beside it."""
    whole = set(metrics_in(page))
    quoted = map(without_labels, QUOTED.findall(text_of(page)))
    ends = {name for name in quoted if re.fullmatch("(?:_[a-z]+)+", name)}
    words = [name.split("_") for name in whole]
    begins = {"_".join(some[:count]) for some in words for count in range(2, len(some))}
    return whole | {begin + end for begin in begins for end in ends}


def without_labels(name: str) -> str:
    return name.partition("{")[0]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The metrics of a service."""
    return {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in families(tmp_path_factory.mktemp("data"))
    }


@over_all("page", sorted(DOCS.glob("*.md")))
def test_a_metric_that_a_page_names_is_there(page: Path, metrics: set[str]) -> None:
    assert set(metrics_in(page)) - metrics == set()


def test_every_metric_is_documented(metrics: set[str]) -> None:
    pages = [page for page in DOCS.glob("*.md") if page.stem != "changelog"]
    named = {name for page in pages for name in named_on(page)}

    assert {name for name in metrics - named if name.startswith("latencytrace_")} == set()


def test_every_field_of_a_gpu_and_of_a_stage_on_one_is_documented_and_the_reverse() -> None:
    listed = {
        heading: {
            name for row in rows(DOCS / "gpu.md") if row.heading == heading for name in row.names
        }
        for heading in ("of each of `gpus`", "of each of `stages`")
    }

    assert listed == {
        "of each of `gpus`": set(GpuDocument.__annotations__),
        "of each of `stages`": set(GpuStageDocument.__annotations__),
    }
