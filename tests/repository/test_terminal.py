"""What the commands print goes through two modules, which let nothing act on a terminal."""

import re
from pathlib import Path

from tests.support.over_all import over_all

PACKAGE = Path(__file__).parents[2] / "latencytrace" / "cli"
GUARDS = {"pictures/lines.py", "pictures/terminal.py"}
MODULES = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")} - GUARDS
PRINTS = re.compile(
    r"(?<![\w.])(print|Console)\(|sys\.std(out|err)\.(write|buffer)|typer\.echo\((?!escaped)"
    r"|TextColumn\((?!.*(markup=False|fields\[answered\]|\"\{task\.description\}\"\),$))"
)


@over_all("module", sorted(MODULES))
def test_nothing_is_printed_past_the_terminals_guard(module: str) -> None:
    found = [line for line in (PACKAGE / module).read_text().splitlines() if PRINTS.search(line)]

    assert found == []
