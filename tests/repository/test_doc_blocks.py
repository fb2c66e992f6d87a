"""Blocks of code in the documentation: each can be read, and names what there is."""

import ast
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer
import yaml

import latencytrace
from latencytrace.cli.app import app
from latencytrace.cli.commands.run import HELP as RUN_HELP
from tests.support.over_all import over_all

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "pages"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^\s*|[|&;(] *|[A-Z_]=\S+ )latencytrace (.*)")
ENDS = frozenset({"--", "|", "||", ">", ">>", "&&", "&", ";", "2>"})
COMMANDS: dict[str, Any] = vars(typer.main.get_command(app))["commands"]


class Block(NamedTuple):
    """A block of a page."""

    page: str
    language: str
    text: str


def blocks(path: Path) -> Iterator[Block]:
    """The blocks of a page, without what stands before them on each line."""
    for indent, language, text in BLOCK.findall(path.read_text("utf-8")):
        yield Block(path.stem, language, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))


EVERY = [block for path in PAGES for block in blocks(path)]


def of(*languages: str) -> list[Block]:
    """The blocks in these languages."""
    return [block for block in EVERY if block.language in languages]


def commands(block: Block) -> Iterator[list[str]]:
    """The calls of our command line in a block: what follows `latencytrace`, up to its end."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if "[" in line.partition("#")[0]:  # a summary of flags, or an install line
            continue
        if found := COMMAND.search(line.partition(" #")[0]):
            words = shlex.split(found[1])
            end = next((at for at, word in enumerate(words) if word in ENDS), len(words))
            yield [word.rstrip(";)") for word in words[:end]]


def flags(command: str) -> set[str]:
    """The flags that a command takes."""
    if command == "run":
        return set(re.findall(r"--[\w-]+", RUN_HELP))
    parameters = COMMANDS[command].params
    return {flag for one in parameters for flag in (*one.opts, *one.secondary_opts)}


@over_all("block", of("sh", "bash", "console"))
def test_commands_and_their_flags_are_there(block: Block) -> None:
    for name, *words in commands(block):
        if name.startswith("-"):
            assert name in {"--version", "--install-completion", "--show-completion"}
            continue
        named = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert named - flags(name) - {"--help"} == set(), name


@over_all("block", of("python"))
def test_programs_compile_and_call_what_there_is(block: Block) -> None:
    text = re.sub(r'^--8<-- "(.+)"$', included, block.text, flags=re.MULTILINE)
    tree = compile(text, block.page, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    called = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "latencytrace"
    }

    assert called - set(latencytrace.__all__) == set()


def included(line: re.Match[str]) -> str:
    """The file that a line takes in."""
    return (ROOT / line[1]).read_text("utf-8")


READERS: dict[str, Callable[[str], object]] = {
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "toml": tomllib.loads,
}


@over_all("block", of(*READERS))
def test_settings_can_be_read(block: Block) -> None:
    assert READERS[block.language](block.text)


def test_there_are_blocks_of_each_kind() -> None:
    count = {language: len(of(language)) for language in ("sh", "python", "yaml", "toml")}

    assert min(count.values()) >= 1
    assert len([words for block in EVERY for words in commands(block)]) > 50


@over_all("path", sorted({*PAGES, *ROOT.glob("*.md"), *ROOT.glob("docs/decisions/*.md")}))
def test_links_to_pages_and_pictures_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
        file, _, anchor = target.partition("#")
        found = path.parent / file if file else path
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), target


def anchors(path: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower())
        .strip()
        .replace(" ", "-")
        for heading in headings
    }


def test_every_page_has_its_place_in_the_navigation() -> None:
    navigation = (ROOT / "docs" / "zensical.toml").read_text("utf-8")
    listed = re.findall(r'"([\w-]+\.md)"', navigation)

    assert sorted(listed) == sorted(path.name for path in DOCS.glob("*.md"))
    assert tomllib.loads(navigation)["project"]["nav"]
