"""Finds Prometheus, Alertmanager and their tools, which `make test` fetches on Debian."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_BESIDE_PYTHON = str(Path(sys.executable).parent)


def program(*names: str) -> str:
    """The path of a program under one of these names; without it the test is skipped."""
    for name in names:
        found = shutil.which(name, path=_BESIDE_PYTHON) or shutil.which(name)
        if found:
            return found
    pytest.skip(f"{names[0]} is not installed; on Debian and its like `make test` fetches it")


def prometheus() -> str:
    """The server."""
    return program("prometheus")


def alertmanager() -> Path:
    """The server, as Debian calls it or as its makers do.

    The one that `make test` unpacks must be started in the folder that holds its `bin`: there
    lies the `share` with its templates. One that is installed may be started anywhere.
    """
    return Path(program("prometheus-alertmanager", "alertmanager")).resolve()


def promtool(*arguments: str | Path, given: bytes = b"") -> str:
    """What promtool says, which must have nothing against it."""
    return _said(program("promtool"), *arguments, given=given)


def amtool(*arguments: str | Path) -> str:
    """What amtool says, likewise."""
    return _said(program("amtool"), *arguments)


def _said(*command: str | Path, given: bytes = b"") -> str:
    done = subprocess.run(
        command, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    said = done.stdout.decode()
    assert done.returncode == 0, said
    return said
