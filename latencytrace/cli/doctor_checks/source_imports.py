"""The libraries that a program names, read off its source: nothing of it is run."""

import ast
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_MOST_FILES: Final = 2_000  # of one program
_LARGEST: Final = 2_000_000  # bytes of a file that is read
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def imported_modules(command: Sequence[str], folder: Path) -> frozenset[str] | None:
    """Return the modules that a program imports and that are not its own, by their full names.

    What starts it is one of them, such as its server: `gunicorn app:app`, `python -m gunicorn`.

    Args:
        command: The program as it would be started.

    Returns:
        None: the command names no source that could be found there.
    """
    waiting = list(_entries(command, folder))
    if not waiting:
        return None
    read: set[Path] = set()
    found = {name for name in _starts(command) if not _own_files(name, (folder,))}
    while waiting and len(read) < _MOST_FILES:
        file = waiting.pop()
        if file in read:
            continue
        read.add(file)
        for name in _names(file, folder):
            own = _own_files(name, (file.parent, folder))
            waiting.extend(own)
            if not own:
                found.add(name)
    return frozenset(found)


def _starts(command: Sequence[str]) -> Iterator[str]:
    """Name the module that a command starts: of a script that is called after it, or `-m`."""
    name = Path(command[0]).name
    if not name.startswith("python"):
        yield name.partition("-")[0]  # waitress-serve
    elif "-m" in command[:-1]:
        yield command[command.index("-m") + 1]


def _entries(command: Sequence[str], folder: Path) -> Iterator[Path]:
    """Find the files that a command starts with: `app.py`, `-m app`, `app.main:app`."""
    for word in command:
        path = folder / word
        if word.endswith(".py") and os.path.isfile(path):  # noqa: PTH113 - of any word
            yield path
        name = word.rpartition("=")[2].partition(":")[0].partition("(")[0]
        if _DOTTED.fullmatch(name):
            yield from _own_files(name, (folder,))


def _own_files(name: str, folders: Sequence[Path]) -> list[Path]:
    """Return a module's files, and those of the packages around it, where they are its own."""
    parts = name.split(".")
    for folder in folders:
        files = [
            file
            for count in range(1, len(parts) + 1)
            for file in (
                folder.joinpath(*parts[:count]).with_suffix(".py"),
                folder.joinpath(*parts[:count], "__init__.py"),
                *([folder.joinpath(*parts, "__main__.py")] if count == len(parts) else ()),
            )
            if os.path.isfile(file)  # noqa: PTH113 - however long it is, and without the right to look
        ]
        if files:
            return files
    return []


def _names(file: Path, folder: Path) -> Iterator[str]:
    """Yield what a file imports, wherever in it; of `from a import b` both `a` and `a.b`."""
    try:
        if file.stat().st_size > _LARGEST:
            return
        with warnings.catch_warnings(action="ignore"):  # the program's own
            tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, file, folder)
            if base is not None:
                yield from (base, *(f"{base}.{each.name}" for each in node.names))


def _absolute(node: ast.ImportFrom, file: Path, folder: Path) -> str | None:
    """Return the full name of what `from … import` names; None: it lies outside of the program."""
    if not node.level:
        return node.module
    around = file.parents[node.level - 1]
    if not around.is_relative_to(folder):
        return None
    parts = [*around.relative_to(folder).parts, *([node.module] if node.module else [])]
    return ".".join(parts) or None
