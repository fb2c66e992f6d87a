"""The agent in a folder of its own, as an image carries it, and a bare environment beside it."""

import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

PACKAGE = Path(__file__).parents[3] / "latencytrace"


def agent_folder(folder: Path) -> Path:
    """What `pip install --target FOLDER .` makes, of links: latencytrace and what it requires."""
    folder.mkdir()
    (folder / PACKAGE.name).symlink_to(PACKAGE)
    for found in _required("latencytrace", set()):
        tops = {file.parts[0] for file in found.files or () if ".." not in file.parts}
        for top in tops - {"__pycache__"}:
            source = Path(str(found.locate_file(top)))
            if source.suffix != ".pth" and not (folder / top).exists():
                (folder / top).symlink_to(source)
    return folder


def bare_environment(folder: Path) -> tuple[Path, Path]:
    """A virtual environment without any package: its interpreter, and where packages would lie."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return folder / "bin" / "python", folder / "lib" / version / "site-packages"


def _required(name: str, seen: set[str]) -> Iterator[Distribution]:
    """A distribution and those that it needs, without extras."""
    if name in seen:
        return
    seen.add(name)
    found = distribution(name)
    yield found
    for line in found.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield from _required(requirement.name, seen)
