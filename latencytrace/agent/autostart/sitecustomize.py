"""Starts the agent in a program that `latencytrace run` started, before its first line.

Python imports a module of this name by itself when it starts. Child processes inherit
PYTHONPATH, so every Python program below the first one is traced as well.
"""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is slow to import
OF_RUN = os.sep + "."  # how our folder ends where `latencytrace run` names it
ON = {"1", "true", "yes", "on"}
PYTHON_PATH = os.environ.get("PYTHONPATH", "")  # noqa: TID251 - read before any setting


def start_agent() -> None:
    """Instrument this process; a failure is one line, and the program goes on untraced."""
    if os.environ.get("LATENCYTRACE_DISABLED", "").strip().lower() in ON:  # noqa: TID251 - it costs nothing when off
        return
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
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def say(line: str) -> None:
    """Tell the user one thing, where it cannot be mistaken for the program's output."""
    if sys.stderr is not None:
        print(f"latencytrace: {line}", file=sys.stderr)  # noqa: T201 - before any logging exists


# Python runs this module under its own name; a test imports it under another.
if __name__ == "sitecustomize":
    yield_to_the_program()
    start_agent()
    run_shadowed()
