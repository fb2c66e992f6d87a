"""Rules of the code that no linter knows."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.over_all import over_all

PACKAGE = Path(__file__).parents[2] / "latencytrace"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
CLASS_LINES = 200
FUNCTION_LINES = 60
# Longer than that, and not to grow: speed is the point there, or a list of flags is, or they
# are still to be parted.
BLOCKS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LONGER = {
    "agent/spans/span.py RecordedSpan": 262,
    "agent/spans/tracer.py start_span": 61,
    "cli/commands/load.py load": 81,
    "cli/commands/serve.py serve": 113,
    "service/app.py serve": 103,
    "service/ingest/committer.py Committer": 243,
    "service/ledgers/assembler.py Assembler": 282,
    "service/ledgers/pipeline.py Pipeline": 254,
}


def measured(module: str) -> Iterator[tuple[str, int, int]]:
    """Each class and function of a module, its lines without docstrings, and the limit."""
    for node in ast.walk(ast.parse((PACKAGE / module).read_text())):
        if isinstance(node, BLOCKS):
            usual = CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES
            docs = sum(docstring_lines(one) for one in ast.walk(node) if isinstance(one, BLOCKS))
            yield f"{module} {node.name}", lines_of(node) - docs, usual


def docstring_lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return 0 if ast.get_docstring(node) is None else lines_of(node.body[0])


def lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def too_long(module: str) -> Iterator[str]:
    for name, lines, usual in measured(module):
        if lines > LONGER.get(name, usual):
            yield f"{name}: {lines} lines"


@over_all("module", MODULES)
def test_a_function_fits_on_a_screen_and_a_class_can_be_looked_over(module: str) -> None:
    assert list(too_long(module)) == []


@over_all("name", LONGER)
def test_what_may_be_longer_is_longer(name: str) -> None:
    assert any(
        one == name and lines > usual for one, lines, usual in measured(name.partition(" ")[0])
    )


# Looks at sockets of the program's, and serves with the standard library's server.
WITH_SOCKETS = {"agent/toolkit/http/arrival.py", "agent/gpu/port.py"}
OF_FILES = {"open", "read_bytes", "read_text", "write_bytes", "write_text"}


def replaceable(module: str) -> Iterator[str]:
    """Uses of what a program's tests put something else in the place of; see `agent/native.py`."""
    for node in ast.walk(ast.parse((PACKAGE / module).read_text())):
        match node:
            case ast.Import(names=[ast.alias(name="socket")]) | ast.ImportFrom(module="socket"):
                if module not in WITH_SOCKETS:
                    yield f"{node.lineno}: socket"
            case ast.Call(func=ast.Name(id="open")):
                yield f"{node.lineno}: open"
            case ast.Call(func=ast.Attribute(value=value, attr=attr), args=arguments):
                of_os = isinstance(value, ast.Name) and value.id == "os"
                is_openers = attr == "open" and not arguments  # of a GPU's reader
                if attr in OF_FILES and not of_os and not is_openers:
                    yield f"{node.lineno}: {attr}"
            case _:
                pass


@over_all(
    "module",
    [
        name
        for name in MODULES
        if name.startswith(
            (
                "agent/export",
                "agent/gpu",
                "agent/process",
                "agent/profiling",
                "agent/program",
                "agent/reporting",
                "agent/timing",
                "agent/toolkit",
            )
        )
    ],
)
def test_the_agents_files_and_sockets_are_those_that_nothing_replaces(module: str) -> None:
    assert list(replaceable(module)) == []
