"""One place says how numbers look: no page and no line of the terminal formats on its own."""

import re
from pathlib import Path

from tests.support.over_all import over_all

PACKAGE = Path(__file__).parents[2] / "latencytrace"
FORMATTER = "model/texts/units.py"
ROOMS = ("analysis", "cli", "model", "service")
SOURCES = sorted(
    path.relative_to(PACKAGE).as_posix()
    for room in ROOMS
    for path in (PACKAGE / room).rglob("*")
    if path.suffix in {".py", ".html"}
)
# Percent, sizes and rates, and numbers in groups that a template formats.
ITS_OWN = re.compile(
    r"(?:\.\d[efg]|:g|:,\.0f)\} ?(?:%|[kMGT]i?B\b|/s\b)|\{:,\}|%[.+]\d*[efg]\"\|format"
)


@over_all("source", SOURCES)
def test_numbers_are_written_by_the_one_formatter(source: str) -> None:
    lines = (PACKAGE / source).read_text().splitlines() if source != FORMATTER else []

    assert [line.strip() for line in lines if ITS_OWN.search(line)] == []
