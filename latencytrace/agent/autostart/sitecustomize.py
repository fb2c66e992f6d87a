"""Starts the agent in a program that `latencytrace run` started, before its first line.

Python imports a module of this name by itself when it starts. Child processes inherit
PYTHONPATH, so every Python program below the first one is traced as well.

The agent's start takes longer than that of a process which multiprocessing spawns, and many of
these never have anything to record. There it waits for the first import of what it can time. In
a fork server it starts at once, for the server's children have it from there.
"""

import os
import sys
from _thread import allocate_lock
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is slow to import
OF_RUN = os.sep + "."  # how our folder ends where `latencytrace run` names it
ON = {"1", "true", "yes", "on"}
PYTHON_PATH = os.environ.get("PYTHONPATH", "")  # noqa: TID251 - read before any setting
# What processes of multiprocessing run that fork no others: one that it spawns, and its helper.
SPAWNED = "from multiprocessing.spawn ", "from multiprocessing.resource_tracker "
HOOK_LIST = os.path.join(os.path.dirname(FOLDER), "timing", "hook_list.txt")  # noqa: PTH118, PTH120 - likewise
OUR_HOOKS = "latencytrace.agent.hooks."  # begins their entry points
NOWHERE = {"org", "usercustomize"}  # libraries that the standard library itself asks for
STANDARD = {"http.client", "sqlite3"}  # of the standard library, what is timed outside of requests


class Waiting:
    """Starts the agent at the first import of what it can time; one of Python's finders."""

    def __init__(self) -> None:
        self._begins = allocate_lock()
        self._libraries: set[str] | None = None  # None: not read yet

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Return how a module is made, once the agent has started for it; None: it waits."""
        if not self._is_timed(name) or not self._begins.acquire(blocking=False):
            return None
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        start_agent()
        if name in sys.modules:  # the agent imports it, too
            return ModuleSpec(name, Imported(sys.modules[name]))  # type: ignore[arg-type] # of the form that imports ask for
        from importlib.util import find_spec  # slow to import

        return find_spec(name)

    def _is_timed(self, name: str) -> bool:
        library = name.partition(".")[0]
        if library in sys.stdlib_module_names or library in NOWHERE:
            return name in STANDARD
        if library == "latencytrace":
            return name.startswith("latencytrace.agent")
        if self._libraries is None:
            self._libraries = {name}
            self._libraries = timed_libraries()
        return not self._libraries or library in self._libraries


class Imported:
    """Loads a module that is there already: it is not run again."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__
        module.__spec__ = None  # which would be taken instead of what `find_spec` returns

    def create_module(self, spec: ModuleSpec) -> None:
        """Have an empty one made, which nothing gets to see."""

    def exec_module(self, empty: ModuleType) -> None:
        """Put the other one in its place again."""
        self._module.__spec__ = self._spec
        sys.modules[empty.__name__] = self._module


def timed_libraries() -> set[str]:
    """Return what starts the agent; empty: anything, for a hook of another package's waits."""
    try:
        from latencytrace.plugins import HOOKS, plugins

        if not all(hook.value.startswith(OUR_HOOKS) for hook in plugins(HOOKS)):
            return set()
        with open(HOOK_LIST, encoding="utf-8") as file:  # noqa: PTH123 - likewise
            modules = [module for line in file for module in line.rpartition(";")[2].split()]
    except (ImportError, OSError):
        return set()
    return {"opentelemetry", *(module.partition(".")[0] for module in modules)}


def is_off() -> bool:
    """Tell whether the environment switches the agent off; it costs nothing then."""
    return os.environ.get("LATENCYTRACE_DISABLED", "").strip().lower() in ON  # noqa: TID251 - read before any setting


def may_wait() -> bool:
    """Tell whether multiprocessing spawned this process, and it needs nothing at once."""
    is_spawned = any(argument.startswith(SPAWNED) for argument in sys.orig_argv)
    fields = os.environ.get("OTEL_PYTHON_LOG_CORRELATION")  # noqa: TID251 - that any log record may show
    return is_spawned and not fields


def start_agent() -> None:
    """Instrument this process; a failure is one line, and the program goes on untraced."""
    import importlib.util  # slow to import

    if importlib.util.find_spec("latencytrace") is None:
        say(f"not installed for {sys.executable}: not traced. Run: pip install latencytrace")
        return
    try:
        import latencytrace  # it may be broken, which must not reach the program
        from latencytrace.agent.process.interpreters import is_main_interpreter

        if is_main_interpreter():
            latencytrace.instrument()
    except Exception as error:  # noqa: BLE001 - not even guard.py can be counted on here
        say(f"cannot start in {sys.executable}, which goes on untraced: {error!r}")


def yield_to_the_program() -> None:
    """Look for packages last in the folder that holds us, where the environment brought it.

    It names us and that folder then, which also holds what we depend on; the program's own
    versions must win. Where `latencytrace run` names us, the folder is the program's.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(FOLDER)))  # noqa: PTH120 - likewise
    entries = [entry for entry in PYTHON_PATH.split(os.pathsep) if entry]
    named = {os.path.abspath(entry) for entry in entries if not entry.endswith(OF_RUN)}  # noqa: PTH100
    if {FOLDER, root} <= named and root in sys.path:
        sys.path.remove(root)
        sys.path.append(root)


def run_shadowed() -> None:
    """Run the `sitecustomize` that Python would have found without us, in our place."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != FOLDER]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec  # slow to import

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def say(line: str) -> None:
    """Tell the user one thing, where it cannot be mistaken for the program's output."""
    if sys.stderr is not None:
        print(f"latencytrace: {line}", file=sys.stderr)  # noqa: T201 - before any logging exists


# Python runs this module under its own name; a test imports it under another.
if __name__ == "sitecustomize":
    yield_to_the_program()
    if not is_off() and may_wait():
        sys.meta_path.insert(0, Waiting())
    elif not is_off():
        start_agent()
    run_shadowed()
