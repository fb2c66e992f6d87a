"""The map of the code, and other pages: what they name is there, and every room is on the map."""

import re
from pathlib import Path

from tests.support.over_all import over_all

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "pages" / "architecture.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
PAGES += sorted((ROOT / "docs").glob("*/*.md"))


def named(page: Path) -> set[str]:
    paths = re.findall(r"`((?:latencytrace|tests|docs|examples)/[\w/.]+)`", page.read_text())
    return {path for path in paths if not re.search(r"[A-Z]{3}", path)}  # FILE stands for any


def rooms() -> set[Path]:
    packages = (path.parent for path in (ROOT / "latencytrace").rglob("__init__.py"))
    return {path.relative_to(ROOT) for path in packages}


@over_all("path", sorted(set().union(*map(named, PAGES))))
def test_what_a_page_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@over_all("room", sorted(map(str, rooms())))
def test_every_room_is_on_the_map(room: str) -> None:
    page = MAP.read_text()

    assert any(f"`{above}/`" in page for above in (room, *map(str, Path(room).parents))) or any(
        inner.is_relative_to(room) and f"`{inner}/`" in page for inner in rooms()
    )


@over_all("room", sorted(map(str, rooms())))
def test_a_room_says_what_it_is_for(room: str) -> None:
    assert (ROOT / room / "__init__.py").read_text().startswith('"""')
