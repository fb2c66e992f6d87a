"""Puts timed functions in the place of a library's own, and the very same ones back."""

import re
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial, update_wrapper
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, ref

from latencytrace.agent.guard import guarded
from latencytrace.agent.process.imports import OnImport, after_import, forget
from latencytrace.agent.timing.hook import (
    UNDO,
    Hook,
    HookOptions,
    ListedHook,
    Patch,
    Replacement,
    Timed,
)
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.plugins import installed_version

_REQUIREMENT = re.compile(r"^\s*([\w.-]+)\s*(?:>=\s*([\d.]+))?\s*$")
_MISSING = object()


class HookState(StrEnum):
    """State of a hook."""

    WAITING = "waiting"  # for the program to import the library
    APPLIED = "applied"
    ABSENT = "absent"  # the library is not installed
    REFUSED = "refused"  # an unsupported version, or a target is missing


class HookStatus(NamedTuple):
    """One hook, whether it is applied, and why not."""

    name: str
    state: HookState
    reason: str | None = None


class _Place(NamedTuple):
    """Place of an attribute before it was patched."""

    owner: Any
    name: str
    before: Any  # `_MISSING`: inherited, not the owner's own
    patched: Any

    def restore(self) -> None:
        """Put the very same object back, unless somebody has patched on top of us."""
        undo = getattr(self.patched, UNDO, None)
        if undo is not None:
            undo()
        if vars(self.owner).get(self.name) is not self.patched:
            return
        if self.before is _MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.before)


class _LateMethods:
    """Methods of classes that were made later, which the program may forget as ever."""

    def __init__(self) -> None:
        # A function knows its class (`super()`), so neither may be held here.
        self._timed: WeakSet[Timed] = WeakSet()
        self._of: WeakKeyDictionary[type, dict[str, ref[Timed]]] = WeakKeyDictionary()

    def add(self, owner: type, name: str, function: Timed, build: Callable[[], Timed]) -> None:
        """Put what is built in a method's place, once, also where a class has another's."""
        if function not in self._timed:
            own = vars(owner)[name]
            function = build()
            self._timed.add(function)
            setattr(owner, name, _as_kind(own, function))
        self._of.setdefault(owner, {})[name] = ref(function)

    def restore(self) -> None:
        """Put the originals back, unless somebody has patched on top of us."""
        for owner, methods in list(self._of.items()):
            for name, function in methods.items():
                own = vars(owner).get(name)
                timed_one = function()
                if timed_one is not None and _function_of(own) is timed_one:
                    setattr(owner, name, _as_kind(own, timed_one.__wrapped__))  # type: ignore[attr-defined]  # `wraps`
        self._of.clear()


class AppliedHook:
    """One hook in this process: waits for its library's modules, patches, restores.

    One that is listed is loaded with the first of them: most programs use few libraries.
    """

    def __init__(
        self,
        name: str,
        hook: type[Hook] | ListedHook,
        recorder: Recorder,
        options: HookOptions | None = None,
    ) -> None:
        self._name = name
        self._hook = hook
        self._options = options or HookOptions()
        self._patches: tuple[Patch | Replacement, ...] | None = None  # None: not loaded yet
        self._recorder = recorder
        self._active = True
        self._places: list[_Place] = []
        self._late = _LateMethods()
        self._missing: list[str] = []
        self._refusal: tuple[HookState, str] | None = None
        self._is_judged = False
        self._awaited: list[tuple[str, OnImport]] = []
        if isinstance(hook, ListedHook):
            for module in hook.modules:
                self._await(module, partial(self._load_for, module))
        elif self._why_refused() is None:
            for patch in self._table():
                self._await(patch.module, partial(self._apply_to, patch))

    @property
    def status(self) -> HookStatus:
        """Return whether the hook is applied, and why not."""
        refusal = self._why_refused()
        if refusal is not None:
            return HookStatus(name=self._name, state=refusal[0], reason=refusal[1])
        missing = ", ".join(self._missing)
        if self._places:
            reason = f"not found: {missing}" if missing else None
            return HookStatus(name=self._name, state=HookState.APPLIED, reason=reason)
        if missing:
            reason = f"not found: {missing}"
            return HookStatus(name=self._name, state=HookState.REFUSED, reason=reason)
        if isinstance(self._hook, ListedHook):
            modules = set(self._hook.modules)
        else:
            modules = {patch.module for patch in self._table()}
        if not modules:
            reason = "nothing that it could time is named in the settings"
            return HookStatus(name=self._name, state=HookState.WAITING, reason=reason)
        reason = f"the program has not imported {', '.join(sorted(modules))}"
        return HookStatus(name=self._name, state=HookState.WAITING, reason=reason)

    def hook_of(self, module: str) -> type[Hook] | None:
        """Return the hook, loaded now if it patches a module; None: it is listed, and does not."""
        if not isinstance(self._hook, ListedHook):
            return self._hook
        return self._hook.load() if module in self._hook.modules else None

    def restore(self) -> None:
        """Put everything back, last patch first."""
        self._active = False
        for awaited in self._awaited:
            forget(*awaited)
        with guarded("restoring classes that were made later", self._recorder.on_fault):
            self._late.restore()
        while self._places:
            with guarded("restoring a patch", self._recorder.on_fault):
                self._places.pop().restore()

    def _await(self, module: str, call: OnImport) -> None:
        self._awaited.append((module, call))
        after_import(module, call)

    def _why_refused(self) -> tuple[HookState, str] | None:
        if not self._is_judged:
            self._refusal, self._is_judged = unmet(self._hook.requires), True
        return self._refusal

    def _table(self) -> tuple[Patch | Replacement, ...]:
        if self._patches is None:
            hook = self._hook.load() if isinstance(self._hook, ListedHook) else self._hook
            self._patches = hook.table(self._options)
        return self._patches

    def _load_for(self, name: str, module: ModuleType) -> None:
        """Apply a listed hook to a module of its library."""
        if not self._active:
            return
        with guarded(f"loading the hook {self._name!r}", self._recorder.on_fault):
            if self._why_refused() is None:
                for patch in self._table():
                    if patch.module == name:
                        self._apply_to(patch, module)

    def _apply_to(self, patch: Patch | Replacement, module: ModuleType) -> None:
        if self._active:
            with guarded(f"patching {patch.module}.{patch.target}", self._recorder.on_fault):
                self._apply(patch, module)

    def _apply(self, patch: Patch | Replacement, module: ModuleType) -> None:
        owner: Any = module
        *path, name = patch.target.split(".")
        for part in path:
            owner = getattr(owner, part, None)
        if owner is None or not (patch.later or hasattr(owner, name)):
            if not patch.optional:
                self._missing.append(f"{patch.module}.{patch.target}")
            return
        if hasattr(owner, name):
            self._replace(patch, owner, name)
        for subclass in _subclasses(owner) if patch.subclasses or patch.later else ():
            if _is_timed(subclass, name):
                self._replace(patch, subclass, name)
        if patch.later:
            self._watch(patch, owner, name)

    def _watch(self, patch: Patch | Replacement, owner: Any, name: str) -> None:  # noqa: ANN401 - a class
        """Patch subclasses as they are made, behind whatever else looks at them then."""
        before = vars(owner).get("__init_subclass__", _MISSING)
        doing = f"patching a subclass of {patch.module}.{patch.target}"

        def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:  # noqa: ANN401, N807
            if before is _MISSING:
                super(owner, cls).__init_subclass__(**kwargs)
            else:
                before.__get__(None, cls)(**kwargs)
            if self._active:
                with guarded(doing, self._recorder.on_fault):
                    self._replace_late(patch, cls, name)

        patched: Any = classmethod(__init_subclass__)
        owner.__init_subclass__ = patched
        self._places.append(_Place(owner, "__init_subclass__", before, patched))

    def _replace_late(self, patch: Patch | Replacement, subclass: type, name: str) -> None:
        if not _is_timed(subclass, name):
            return
        function = _function_of(vars(subclass)[name])
        if self._timed_already(function, subclass, name) is None:
            self._late.add(subclass, name, function, partial(self._built, patch, function))
        else:
            self._late.add(subclass, name, function, lambda: function)

    def _replace(self, patch: Patch | Replacement, owner: Any, name: str) -> None:  # noqa: ANN401 - a class or module
        before = vars(owner).get(name, _MISSING)
        original = getattr(owner, name) if before is _MISSING else before
        kind: Callable[[Any], Any] | None = None
        if isinstance(original, (staticmethod, classmethod)):
            kind = type(original)
        elif isinstance(owner, ModuleType) and isinstance(original, MethodType):
            kind = partial(_bound, to=original.__self__)
        function = original.__func__ if kind is not None else original
        known = None if before is _MISSING else self._timed_already(function, owner, name)
        if known is not None:
            restored = kind(known.before) if kind is not None else known.before
            self._places.append(_Place(owner, name, restored, original))
            return
        replaced = self._built(patch, function)
        patched = kind(replaced) if kind is not None else replaced
        kept_as = patch.kept_as if isinstance(patch, Replacement) else None
        if kept_as is not None:
            setattr(owner, kept_as, original)
            self._places.append(_Place(owner, kept_as, _MISSING, original))
        setattr(owner, name, patched)
        self._places.append(_Place(owner, name, before, patched))
        if isinstance(owner, ModuleType) and isinstance(patched, FunctionType):
            _found_by_name(patched, owner, name)

    def _built(self, patch: Patch | Replacement, function: Timed) -> Timed:
        if isinstance(patch, Replacement):
            return _alike(patch.build(self._recorder, function), function)
        from latencytrace.agent.timing.wrapping import beginning, timed  # noqa: PLC0415 - only where it is used

        return timed(function, beginning(function, patch, self._recorder))

    def _timed_already(self, function: Timed, owner: Any, name: str) -> _Place | None:  # noqa: ANN401
        """Return where a function of ours was put that a library has since copied elsewhere."""
        for place in self._places:
            if place.patched is function and (place.owner, place.name) != (owner, name):
                return place
        return None


def _bound(function: Timed, to: object) -> MethodType:
    return MethodType(function, to)


def _alike(replaced: Timed, original: Timed) -> Timed:
    """Return what stands in a function's place, with its name, signature and documentation."""
    if isinstance(replaced, FunctionType) and not hasattr(replaced, "__wrapped__"):
        update_wrapper(replaced, original)
    return replaced


def _found_by_name(patched: FunctionType, owner: ModuleType, name: str) -> None:
    """Have a function pickled as that of the module that it was put into.

    Its original may be another module's, which still has that by its name.
    """
    found: Any = sys.modules.get(patched.__module__)
    for part in patched.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not patched:
        patched.__module__, patched.__qualname__ = owner.__name__, name


def _function_of(own: Any) -> Any:  # noqa: ANN401 - whatever a class has
    return own.__func__ if isinstance(own, (staticmethod, classmethod)) else own


def _as_kind(own: object, function: Timed) -> Any:  # noqa: ANN401
    """Return a function as the kind of method that a class has in its place."""
    return type(own)(function) if isinstance(own, (staticmethod, classmethod)) else function


def _is_timed(subclass: type, name: str) -> bool:
    """Tell whether a subclass has a method itself that may be replaced.

    What does not bind, as a class or a `partial` there, is no method. A class that no module has
    by its name is pickled with its methods, to which a recorder must not belong.
    """
    own = vars(subclass).get(name)
    if subclass.__module__ == "__main__" or "<locals>" in subclass.__qualname__:
        return False
    if isinstance(own, (staticmethod, classmethod)):
        return True
    # From Python 3.13 on a `partial` has `__get__`, which binds from 3.14 on.
    binds = hasattr(type(own), "__get__") and not isinstance(own, (type, MethodType, partial))
    return callable(own) and binds


def _subclasses(owner: type) -> set[type]:
    """Every class below one, at whatever depth."""
    below: set[type] = set(owner.__subclasses__())
    return below.union(*map(_subclasses, below))


def unmet(requirements: tuple[str, ...]) -> tuple[HookState, str] | None:
    """Return why none of these requirements is met; None: one is."""
    reasons = []
    state = HookState.ABSENT
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is None:
            raise ValueError(f"{requirement!r} is not of the form `distribution >= version`")
        name, least = match.groups()
        try:
            installed = installed_version(name)
        except ModuleNotFoundError:
            reasons.append(f"{name} is not installed")
            continue
        if least is None or _numbers(installed) >= _numbers(least):
            return None
        state = HookState.REFUSED
        reasons.append(f"{name} {installed} is older than {least}")
    return (state, "; ".join(reasons)) if reasons else None


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match.group().split("."))) if match else ()
