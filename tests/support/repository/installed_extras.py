"""A virtual environment with what some of our extras need, made of what is installed here."""

import tomllib
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, PackagePath, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def environment_with(folder: Path, *extras: str) -> Path:
    """Make one in a folder; returns its Python."""
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "latencytrace.pth").write_text(f"{ROOT}\n")
    ours = distribution("latencytrace")
    link(ours, packages, [f for f in ours.files or () if f.parts[0].endswith(".dist-info")])
    for found in needed(*extras):
        link(found, packages, [file for file in found.files or () if file.parts[0] != ".."])
    return folder / "bin" / "python"


def link(found: Distribution, packages: Path, files: Iterable[PackagePath]) -> None:
    for file in files:
        original = Path(str(found.locate_file(file)))
        if original.is_file():
            (packages / file).parent.mkdir(parents=True, exist_ok=True)
            (packages / file).symlink_to(original)


def needed(*extras: str) -> list[Distribution]:
    """What installing us with these extras brings, ourselves left out."""
    waiting = [Requirement(text) for text in PROJECT["dependencies"]]
    for extra in extras:
        waiting += [Requirement(text) for text in PROJECT["optional-dependencies"][extra]]
    found: dict[str, Distribution] = {}
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in found:
            continue
        found[name] = distribution(name)
        for text in found[name].requires or ():
            more = Requirement(text)
            settings = [{"extra": extra} for extra in ("", *wanted.extras)]
            if more.marker is None or any(map(more.marker.evaluate, settings)):
                waiting.append(more)
    return list(found.values())
