"""Modules that a request has to wait for, as the first one often does."""

import sys
import threading
from functools import wraps
from types import FunctionType
from typing import Any, Final

from opentelemetry.trace import get_current_span

from latencytrace.agent.guard import FAULTS
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Call
from latencytrace.agent.toolkit.calls import CountWithin
from latencytrace.model.stage import Stage

_MODULE: Final = "importlib._bootstrap"
_MOST: Final = 64  # imports of one span
_MOST_MISSING: Final = 1024  # names that are remembered


def time_imports(recorder: Recorder, original: Timed) -> Timed:
    """Time each import of a module that is not there yet, with all that it imports itself."""
    imports = _Imports(recorder)

    @wraps(original)
    def find_and_load(name: str, import_: Any) -> Any:
        call = imports.begin(name)
        if call is None:
            return original(name, import_)
        call.activate()
        try:
            return original(name, import_)
        except ModuleNotFoundError:  # no error of the span: many are optional
            imports.note_missing(name)
            raise
        finally:
            imports.end(call)

    return _as_pythons_own(find_and_load, original)


class _Imports:
    """The imports of a program that are timed."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._counts = CountWithin()
        self._own = threading.local()  # `is_at_work`: its thread's imports are for a span of ours
        self._missing: set[str] = set()  # libraries may look for optional ones in each request

    def begin(self, name: str) -> Call | None:
        """Start a span, where the import is to have one."""
        own, recorder = self._own, self._recorder
        if name in sys.modules or name in self._missing or getattr(own, "is_at_work", False):
            return None
        own.is_at_work = True
        try:
            if not _is_wanted(recorder, self._counts):
                return None
            started = recorder.start(f"import {name.partition('.')[0]}", Stage.LOAD)
            return Call(Stage.LOAD, started, recorder.on_fault)
        except FAULTS as fault:
            recorder.on_fault("timing an import", fault)
            return None
        finally:
            own.is_at_work = False

    def note_missing(self, name: str) -> None:
        """Remember a module that is not installed: its next import is not timed."""
        if len(self._missing) < _MOST_MISSING:
            self._missing.add(name)

    def end(self, call: Call) -> None:
        """End the span of an import."""
        self._own.is_at_work = True
        try:
            call.deactivate()
            call.finish(None)
        finally:
            self._own.is_at_work = False


def _is_wanted(recorder: Recorder, counts: CountWithin) -> bool:
    around = get_current_span()
    if not around.is_recording() or recorder.suppressed() or recorder.inside(Stage.LOAD):
        return False
    return counts.next_of(around) <= _MOST


def _as_pythons_own(function: Any, original: Timed) -> Timed:
    """Have tracebacks and warnings pass over a function as they do over the one that imports.

    A warning in a module is attributed to the importing module, and filters go by that.
    """
    if isinstance(original, FunctionType):
        file = original.__code__.co_filename
        function.__code__ = function.__code__.replace(co_filename=file)
    timed: Timed = function
    return timed


class ImportsHook(Hook):
    """Times what Python calls for a module that is not in `sys.modules`."""

    patches = (Replacement(_MODULE, "_find_and_load", time_imports, bare=True),)
