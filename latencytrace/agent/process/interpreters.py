"""Which of a process's interpreters runs this code."""

from importlib import import_module
from typing import Any


def is_main_interpreter() -> bool:
    """Return whether this is the interpreter that the process began with.

    The agent runs there alone: a thread of ours in another one is fatal to the process once that
    one ends.
    """
    for name in ("_interpreters", "_xxsubinterpreters"):  # from CPython 3.13 on, and before
        try:
            interpreters: Any = import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() == interpreters.get_main())
    return True  # this Python has but one
