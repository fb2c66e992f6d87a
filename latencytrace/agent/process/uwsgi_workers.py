"""uWSGI: which of its processes is to be traced, and when; it forks without telling Python.

Threads that run while it forks can hold the interpreter's lock in the child for ever, and the
child has none of them. So ours wait for its workers, which uWSGI announces by calling
`uwsgi.post_fork_hook`. Its module does not exist yet where `latencytrace run` starts the agent,
at the very beginning of Python: it is looked for at the program's imports.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from latencytrace.agent.guard import contained
from latencytrace.agent.process import background
from latencytrace.agent.process.forks import notice_fork
from latencytrace.agent.process.name import command_of

NO_THREADS: Final = (
    "uWSGI runs Python without threads, so that no span would ever be sent: start it with "
    "--enable-threads"
)
WAITING: Final = "uWSGI has not begun its workers yet: nothing is sent before"
_HOOK: Final = "post_fork_hook"
_OWN_PROCESS: Final = Path("/proc/self/exe")


def is_uwsgi() -> bool:
    """Tell whether uWSGI runs this interpreter, or is about to."""
    if _module() is not None:
        return True
    if not sys.orig_argv:  # within another program
        try:
            return _OWN_PROCESS.readlink().name.startswith("uwsgi")
        except OSError:
            return False
    return Path(command_of(sys.orig_argv).program).name in {"uwsgi", "pyuwsgi"}


class UwsgiWorkers:
    """Holds threads of ours back until this process is one that serves.

    Args:
        refuse: Called with why nothing can be traced here.
    """

    def __init__(self, refuse: Callable[[str], None]) -> None:
        self._refuse = refuse
        self._finder: _Finder | None = None

    def expect(self) -> None:
        """Begin to wait, unless this is a worker already, or no uWSGI at all."""
        uwsgi = _module()
        if uwsgi is not None:
            if _has_threads(uwsgi) and not _has_begun(uwsgi):
                background.hold()
            self._meet(uwsgi)
        elif is_uwsgi() and self._finder is None:
            background.hold()
            self._finder = _Finder(self.look)
            sys.meta_path.insert(0, self._finder)

    def look(self) -> None:
        """Look whether uWSGI's module has come meanwhile."""
        if self._finder is None:
            return
        uwsgi = _module()
        if uwsgi is None:
            return
        sys.meta_path.remove(self._finder)
        self._finder = None
        self._meet(uwsgi)

    def _meet(self, uwsgi: ModuleType) -> None:
        if not _has_threads(uwsgi):
            self._refuse(NO_THREADS)
        elif _has_begun(uwsgi):
            _work()
        elif not isinstance(uwsgi, _AnnouncingModule):
            theirs = getattr(uwsgi, _HOOK, None)
            uwsgi.__class__ = _AnnouncingModule
            setattr(uwsgi, _HOOK, theirs)


class _AnnouncingModule(ModuleType):
    """The module `uwsgi`: the program may set its one hook after a fork before or after us."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, _with_work(value) if name == _HOOK else value)


class _Finder:
    """Finds no module; looks for uWSGI's at each import, until it is there."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = contained("looking for uWSGI")(look)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Look on the way."""
        self._look()
        return None


def _module() -> ModuleType | None:
    """UWSGI's own, which exists only inside of it."""
    found = sys.modules.get("uwsgi")
    return found if isinstance(found, ModuleType) and hasattr(found, "worker_id") else None


def _has_threads(uwsgi: Any) -> bool:
    return bool(getattr(uwsgi, "has_threads", True))


def _has_begun(uwsgi: Any) -> bool:
    """Tell whether this process works already: an application may be loaded before the fork."""
    master = uwsgi.masterpid()
    return bool(uwsgi.worker_id() or (master and master != os.getpid()))


def _with_work(theirs: Any) -> Callable[[], None]:
    def begin_and_call() -> None:
        _work()
        if theirs is not None:
            theirs()

    return begin_and_call


@contained("beginning in a worker of uWSGI")
def _work() -> None:
    """Begin in this process, which serves."""
    if background.are_held():
        notice_fork()
        background.let_go()
