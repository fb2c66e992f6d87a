"""Pressure as Linux tells it (PSI): how much of the last minute some thread waited for a resource.

Of the process's own control group, where there is one that tells, else of the machine.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

RESOURCES: Final = ("cpu", "memory", "io")
_CONTROL_GROUPS: Final = Path("sys/fs/cgroup")
_MINUTE: Final = "avg60="


def pressure(root: Path = Path("/")) -> Mapping[str, float]:
    """Return shares of time by resource; those that Linux does not tell are absent.

    Args:
        root: Where `/proc` and `/sys` are.
    """
    folder = _control_group(root)
    found: dict[str, float] = {}
    for resource in RESOURCES:
        ratio = None if folder is None else _ratio(folder / f"{resource}.pressure")
        if ratio is None:
            ratio = _ratio(root / "proc/pressure" / resource)
        if ratio is not None:
            found[resource] = ratio
    return found


def _control_group(root: Path) -> Path | None:
    """The folder of the process's own control group, of version 2."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    named = next((line[3:] for line in lines if line.startswith("0::/")), None)
    return None if named is None else root / _CONTROL_GROUPS / named.lstrip("/")


def _ratio(file: Path) -> float | None:
    """The share in the line `some avg10=0.00 avg60=98.88 avg300=99.15 total=1`."""
    try:
        first = file.read_text(encoding="ascii").partition("\n")[0].split()
        if first[0] != "some":
            return None
        return float(next(one for one in first if one.startswith(_MINUTE))[len(_MINUTE) :]) / 100
    except (OSError, ValueError, IndexError, StopIteration):
        return None
