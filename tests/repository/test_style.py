"""Rules of the code that no linter knows."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "latencytrace"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
CLASS_LINES = 200
FUNCTION_LINES = 60
# Longer than that, and not to grow: speed is the point there, or a list of flags is, or they
# are still to be parted.
LONGER = {
    "Assembler": 338,
    "Committer": 296,
    "OpenTraces": 238,
    "Pipeline": 311,
    "Profiles": 250,
    "RecordedSpan": 285,
    "agent_settings": 73,
    "descend": 205,
    "fill_pauses": 110,
    "lay_out_trees": 155,
    "link_spans": 220,
    "load": 90,
    "read_reporters": 255,
    "serve": 115,
    "start_span": 62,
    "total_gaps": 65,
    "unpack_many": 90,
}


def too_long(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((PACKAGE / module).read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            usual = CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LONGER.get(node.name, usual):
                yield f"{node.name}: {lines} lines"


@pytest.mark.parametrize("module", MODULES)
def test_a_function_fits_on_a_screen_and_a_class_can_be_looked_over(module: str) -> None:
    assert list(too_long(module)) == []
