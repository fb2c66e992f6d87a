"""The name by which a shell finds this very latencytrace."""

import os
import shutil
import sys
from pathlib import Path


def own_command() -> str:
    """`latencytrace` where the shell finds this one by its name, else a path that it does find.

    A virtual environment that is not activated, as that of `make demo`, is not on PATH.
    """
    script = Path(sys.executable).parent / "latencytrace"
    found = shutil.which("latencytrace")
    if found is not None and Path(found).absolute() == script:
        return "latencytrace"
    if not script.is_file():
        return f"{sys.executable} -m latencytrace"
    here = Path.cwd()
    return os.fspath(script.relative_to(here) if script.is_relative_to(here) else script)
