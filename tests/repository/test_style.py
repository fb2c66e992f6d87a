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
    "service/ledgers/assembler.py Assembler": 283,
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
