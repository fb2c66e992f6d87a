"""Folders that a first start fills and later ones find."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp


@contextmanager
def filled(folder: Path) -> Iterator[Path]:
    """A folder to fill that takes its place in the cache when it is whole.

    Where another process was faster, its folder stays.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        yield unfinished
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
