"""What the commands print goes through one module, which lets nothing act on a terminal."""

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "latencytrace" / "cli"
MODULES = sorted(path.name for path in PACKAGE.glob("*.py") if path.name != "terminal.py")
PRINTS = re.compile(
    r"(?<![\w.])(print|Console)\(|sys\.std(out|err)\.(write|buffer)|typer\.echo\((?!escaped)"
    r"|TextColumn\((?!.*(markup=False|fields\[answered\]|\"\{task\.description\}\"\),$))"
)


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_printed_past_the_terminals_guard(module: str) -> None:
    found = [line for line in (PACKAGE / module).read_text().splitlines() if PRINTS.search(line)]

    assert found == []
