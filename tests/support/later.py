"""Libraries that take long to import: a file of tests that is only collected imports none."""

from importlib import import_module
from typing import Any


class Later:
    """A module that is imported before the first test of its file, or once it is used.

    Each process that runs tests collects all files, and runs the tests of some of them.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "pytest")):  # pytest looks for some in whatever a file holds
            raise AttributeError(name)
        return getattr(self.imported(), name)

    def imported(self) -> Any:
        """The module itself."""
        return import_module(self._name)
