"""Calls back once the program has imported a module: so hooks wait for their libraries.

By hand: what else does it (`wrapt`) loads asyncio into every program, a tenth of a start.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from latencytrace.agent.guard import FAULTS, edge_faults

OnImport = Callable[[ModuleType], object]

_waiting: dict[str, list[OnImport]] = {}  # by the module's name
_asking = threading.local()  # `names`: of modules that this thread asks other finders for


def after_import(name: str, call: OnImport) -> None:
    """Call with a module as soon as it is imported; at once, where it is."""
    module = sys.modules.get(name)  # None, too, where a program bars it
    if module is not None:
        call(module)
        return
    _waiting.setdefault(name, []).append(call)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    module = sys.modules.get(name)  # another thread may have imported it meanwhile
    spec = getattr(module, "__spec__", None)
    if module is not None and not getattr(spec, "_initializing", False):
        _tell(name, module)


def forget(name: str, call: OnImport) -> None:
    """Call no more; without any waiting call, stay out of the program's imports."""
    calls = _waiting.get(name, [])
    if call in calls:
        calls.remove(call)
    if not calls:
        _waiting.pop(name, None)
    if not _waiting and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _tell(name: str, module: ModuleType) -> None:
    for call in _waiting.pop(name, ()):
        call(module)


class _Loader:
    """Stands in the place of a module's loader until the module is made, then steps aside."""

    def __init__(self, loader: Any, name: str) -> None:
        self._loader = loader
        self._name = name

    @property  # type: ignore[misc] # as `type()` and `isinstance` see it
    def __class__(self) -> type:
        return type(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Make the module as the loader does; None: as all are made."""
        create = getattr(self._loader, "create_module", None)
        return None if create is None else create(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Have the loader fill the module, then make the calls that wait for it."""
        for place, name in ((module.__spec__, "loader"), (module, "__loader__")):
            if getattr(place, name, None) is self:
                setattr(place, name, self._loader)
        self._loader.exec_module(module)
        try:
            _tell(self._name, module)
        except FAULTS as fault:
            edge_faults("noticing an import", fault)


class _Finder:
    """Asks the finders behind it for what is waited for, and puts itself before the loader."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return how a module is made that calls wait for; None: it is none of these."""
        asking = _asking.__dict__.setdefault("names", set())
        if name not in _waiting or name in asking:  # a finder behind us asks us in its turn
            return None
        asking.add(name)
        try:
            for finder in tuple(sys.meta_path):
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec: ModuleSpec | None = None if find is None else find(name, path, target)
                if spec is not None:
                    self._watch(spec)
                    return spec
            return None
        finally:
            asking.discard(name)

    @staticmethod
    def _watch(spec: ModuleSpec) -> None:
        try:
            if hasattr(spec.loader, "exec_module"):
                spec.loader = _Loader(spec.loader, spec.name)  # type: ignore[assignment]
        except FAULTS as fault:
            edge_faults("watching an import", fault)


_finder: Final[Any] = _Finder()  # of the form that imports ask for
