"""Takes up an objectives file that changed, or says what is wrong in it and keeps the old one."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

from latencytrace.errors import ObjectivesError
from latencytrace.model import Objective
from latencytrace.service.clock import now_ns
from latencytrace.service.objectives.file import ObjectivesFile, read_objectives, yaml_files
from latencytrace.service.objectives.maintenance import MaintenanceWindows

_log = logging.getLogger(__name__)
_NAMES: Final = {"threshold_ns": "value", "target_ratio": "target", "period_ns": "duration"}
# Raised by a fault of our own parsers: watching goes on with the objectives that there are.
_FAULTS: Final = (
    ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
_UNITS: Final = {"threshold_ns": 1e9, "period_ns": 86_400e9}

Stamp = tuple[tuple[str, int, int, int], ...]


class ObjectivesReload:
    """Reads a file of objectives again whenever it has changed, or at a signal.

    Args:
        path: A file, or a folder of them; None: there is none.
        found: As it was read at the start; None: there was none.

    Attributes:
        objectives: Objectives of the file.
        maintenance: Maintenance windows of the file.
        changed: Take the objectives that it has now, one after the other.
    """

    def __init__(self, path: Path | None, found: ObjectivesFile | None) -> None:
        self._path = path
        self.objectives = () if found is None else found.objectives
        self.maintenance = MaintenanceWindows(() if found is None else found.maintenance)
        self._windows = () if found is None else found.maintenance
        self.changed: list[Callable[[Sequence[Objective]], None]] = []
        self._asked = threading.Event()
        self._stamp = _stamp(path)
        self.is_failing = False

    def ask(self) -> None:
        """Read the file with the next step, changed or not."""
        self._asked.set()

    def step(self) -> None:
        """Look at the file; where it changed, take it up."""
        stamp = _stamp(self._path)
        if self._path is None or (stamp == self._stamp and not self._asked.is_set()):
            return
        self._asked.clear()
        self._stamp = stamp
        try:
            found = read_objectives(self._path)
        except ObjectivesError as error:
            self.is_failing = True
            _log.error("the objectives stay as they were, for the file is wrong: %s", error)
            return
        except _FAULTS:
            self.is_failing = True
            _log.exception("the objectives stay as they were: please report this")
            return
        self.is_failing = False
        said = differences(self.objectives, found.objectives)
        if found.maintenance != self._windows:
            self._windows = found.maintenance
            self.maintenance.replace(found.maintenance, now_ns())
            said.append(f"windows of maintenance: {len(found.maintenance)} now")
        if not said:
            _log.info("the objectives were read again: none has changed")
            return
        for note in (*found.notes, *said):
            _log.info("%s", note)
        self.objectives = found.objectives
        for take in self.changed:
            take(found.objectives)


def differences(before: Sequence[Objective], after: Sequence[Objective]) -> list[str]:
    """Say what was added, what was removed and what was changed, a line each."""
    old = {one.name: one for one in before}
    new = {one.name: one for one in after}
    lines = [f"objective {name} was removed" for name in old if name not in new]
    lines += [f"objective {name} was added" for name in new if name not in old]
    for name, now in new.items():
        was = old.get(name)
        parts = [] if was is None else list(_parts(was, now))
        if parts:
            lines.append(f"objective {name} was changed: {', '.join(parts)}")
    return lines


def _parts(was: Objective, now: Objective) -> list[str]:
    found = []
    for field in fields(Objective):
        before, after = getattr(was, field.name), getattr(now, field.name)
        if before != after:
            name = _NAMES.get(field.name, field.name)
            texts = [_text(one, _UNITS.get(field.name)) for one in (before, after)]
            found.append(f"{name} {texts[0]} is {texts[1]} now")
    return found


def _text(value: object, unit: float | None) -> str:
    if isinstance(value, int | float):
        return f"{value / (unit or 1):.9g}"
    return "none" if value in {None, ()} else str(value)


def _stamp(path: Path | None) -> Stamp:
    """What changes with the files: where they are, when they were written, how long they are."""
    if path is None:
        return ()
    folder = path if path.is_dir() else path.parent
    found = []
    try:
        for one in dict.fromkeys([path, *yaml_files(folder)]):
            of = one.stat()
            found.append((str(one), of.st_ino, of.st_mtime_ns, of.st_size))
    except OSError:
        return ()  # it is being replaced, or is gone: seen when it is there again
    return tuple(found)
