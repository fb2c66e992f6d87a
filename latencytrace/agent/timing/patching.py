"""Puts timed functions in the place of a library's own, and the very same ones back."""

import re
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial, update_wrapper
from types import FunctionType, MethodType, ModuleType, NoneType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, ref

from latencytrace.agent.guard import guarded
from latencytrace.agent.process.imports import OnImport, after_import, forget
from latencytrace.agent.timing.binding import (
    MISSING,
    Unbound,
    attribute,
    function_of,
    is_called,
    raw_attribute,
)
from latencytrace.agent.timing.defence import defended, let_be, looking_like, patched
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

_REQUIREMENT = re.compile(r"^\s*([\w.-]+)\s*(?:(>=|since)\s*([\d.]+))?\s*$")


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
    before: Any  # `MISSING`: inherited, not the owner's own
    patched: Any
    function: Any  # of ours, in what was put there
    module: str  # by the name that the hook has for it

    def restore(self) -> None:
        """Put the very same object back; below another tool's patch ours only calls it."""
        undo = getattr(self.patched, UNDO, None)
        if undo is not None:
            undo()
        if vars(self.owner).get(self.name) is not self.patched:
            let_be(self.function)
            return
        if self.before is MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.before)


class _LateMethods:
    """Methods of classes that were made later, which the program may forget as ever."""

    def __init__(self) -> None:
        # A function knows its class (`super()`), so neither may be held here.
        self._timed: WeakSet[Timed] = WeakSet()
        self._of: WeakKeyDictionary[type, dict[str, ref[Timed]]] = WeakKeyDictionary()

    def add(self, owner: type, name: str, build: Callable[[], Any]) -> None:
        """Put what is built in a method's place, once, also where a class has another's."""
        function = function_of(vars(owner)[name])
        if function not in self._timed:
            built = build()
            function = function_of(built)
            self._timed.add(function)
            setattr(owner, name, built)
        self._of.setdefault(owner, {})[name] = ref(function)

    def restore(self, only: Timed | None = None) -> None:
        """Put the originals back, or one; below another tool's patch ours only calls it."""
        for owner, methods in list(self._of.items()):
            for name, function in list(methods.items()):
                timed_one = function()
                if timed_one is None or (only is not None and timed_one is not only):
                    continue
                del methods[name]
                own = vars(owner).get(name)
                if function_of(own) is timed_one:
                    setattr(owner, name, _as_kind(own, timed_one.__wrapped__))
                else:
                    let_be(timed_one)


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
        patched.add(self)
        if isinstance(hook, ListedHook):
            for module in hook.modules:
                self._await(module, partial(self._load_for, module))
        elif self._why_refused() is None:
            for patch in self._table():
                self._await(patch.module, partial(self._apply_to, patch))

    @property
    def status(self) -> HookStatus:
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

    def withdraw(self, function: Timed) -> None:
        """Put back what one function stands for, wherever it was put."""
        self._late.restore(function)
        for place in [place for place in self._places if place.function is function]:
            self._places.remove(place)
            place.restore()

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
        raw = MISSING if owner is None else raw_attribute(owner, name)
        is_there = raw is not MISSING and (isinstance(patch, Replacement) or is_called(raw))
        if owner is None or not (patch.later or is_there):
            if not patch.optional:
                self._missing.append(f"{patch.module}.{patch.target}")
            return
        if is_there:
            self._replace(patch, owner, name, raw)
        for subclass in _subclasses(owner) if patch.subclasses or patch.later else ():
            if _is_timed(subclass, name):
                self._replace(patch, subclass, name, vars(subclass)[name])
        if patch.later:
            self._watch(patch, owner, name)

    def _watch(self, patch: Patch | Replacement, owner: Any, name: str) -> None:
        """Patch subclasses as they are made, behind whatever else looks at them then."""
        before = vars(owner).get("__init_subclass__", MISSING)
        doing = f"patching a subclass of {patch.module}.{patch.target}"

        def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:
            if before is MISSING:
                super(owner, cls).__init_subclass__(**kwargs)
            else:
                before.__get__(None, cls)(**kwargs)
            if self._active:
                with guarded(doing, self._recorder.on_fault):
                    self._replace_late(patch, cls, name)

        watching: Any = classmethod(__init_subclass__)
        owner.__init_subclass__ = watching
        place = _Place(owner, "__init_subclass__", before, watching, None, patch.module)
        self._places.append(place)

    def _replace_late(self, patch: Patch | Replacement, subclass: type, name: str) -> None:
        if not _is_timed(subclass, name):
            return
        own = vars(subclass)[name]
        if self._timed_already(own, subclass, name) is None:
            self._late.add(subclass, name, lambda: self._built(patch, subclass, name, own))
        else:
            self._late.add(subclass, name, lambda: own)

    def _replace(self, patch: Patch | Replacement, owner: Any, name: str, raw: Any) -> None:
        module, before = patch.module, vars(owner).get(name, MISSING)
        if self._is_patched_by_another_name(module, owner, name):
            return
        known = None if before is MISSING else self._timed_already(raw, owner, name)
        if known is not None:
            restored = _as_kind(raw, known.before)
            self._places.append(_Place(owner, name, restored, raw, known.function, module))
            return
        built = self._built(patch, owner, name, raw)
        kept_as = patch.kept_as if isinstance(patch, Replacement) else None
        if kept_as is not None:
            setattr(owner, kept_as, raw)
            self._places.append(_Place(owner, kept_as, MISSING, raw, None, module))
        setattr(owner, name, built)
        function = function_of(built)
        self._places.append(_Place(owner, name, before, built, function, module))
        if type(function) is FunctionType and type(built) is not MethodType:
            _found_by_name(function, owner, name)
        if isinstance(built, Unbound):
            update_wrapper(built, function)

    def _built(self, patch: Patch | Replacement, owner: Any, name: str, raw: Any) -> Any:
        """Return what an owner is to have in the place of an attribute."""
        found = attribute(owner, name, raw)
        function = found.function
        if isinstance(patch, Replacement):
            build = partial(patch.build, self._recorder)
            replaced = build(function) if patch.bare else defended(build, function)
            replaced = looking_like(replaced, function)
        else:
            from latencytrace.agent.timing.wrapping import beginning, timed

            replaced = timed(function, beginning(function, patch, self._recorder))
        if type(replaced) is FunctionType and replaced is not function:
            _complete(replaced, function_of(raw))
        return found.in_place(replaced)

    def _is_patched_by_another_name(self, module: str, owner: Any, name: str) -> bool:
        """Tell whether the same place was found before, by another name of its module.

        `sys.modules["httpx"] = httpx2` gives one module the names of two libraries.
        """
        here = (place for place in self._places if place.owner is owner and place.name == name)
        return any(place.module != module for place in here)

    def _timed_already(self, raw: object, owner: Any, name: str) -> _Place | None:
        """Return where a function of ours was put that a library has since copied elsewhere."""
        function = function_of(raw)
        for place in self._places:
            is_there = place.patched is function or place.patched is raw
            if is_there and (place.owner, place.name) != (owner, name):
                return place
        return None


def _complete(built: FunctionType, original: Any) -> None:
    """Give what stands in a function's place what `wraps` leaves out."""
    built.__wrapped__ = original  # type: ignore[attr-defined]  # as `wraps` has it
    for part, count in (
        ("__defaults__", built.__code__.co_argcount),
        ("__kwdefaults__", built.__code__.co_kwonlyargcount),
    ):
        given = getattr(original, part, None)
        if not count and isinstance(given, (tuple, dict, NoneType)):  # else of its own parameters
            setattr(built, part, given)


def _found_by_name(built: FunctionType, owner: Any, name: str) -> None:
    """Have a function pickled as that of the class or module that it was put into.

    Its original may be another module's, which still has that by its name, or be in C.
    """
    if isinstance(owner, type) and isinstance(getattr(built, "__wrapped__", None), FunctionType):
        return
    found: Any = sys.modules.get(built.__module__)
    for part in built.__qualname__.split("."):
        found = raw_attribute(found, part)
    if function_of(found) is not built:
        within = owner.__qualname__ if isinstance(owner, type) else ""
        built.__module__ = owner.__module__ if within else owner.__name__
        built.__qualname__ = f"{within}.{name}" if within else name


def _as_kind(own: object, function: Timed) -> Any:
    """Return a function as the kind of method that a class has in its place."""
    if type(own) is MethodType:
        return MethodType(function_of(function), own.__self__)
    for kind in (staticmethod, classmethod):
        if type(own) is kind and not isinstance(function, kind):
            return kind(function)
    return function


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
            raise ValueError(
                f"{requirement!r} is not of the form `distribution >= version`, or `since`"
            )
        name, how, least = match.groups()
        try:
            installed = installed_version(name)
        except ModuleNotFoundError:
            reasons.append(f"{name} is not installed")
            continue
        if least is None or _numbers(installed) >= _numbers(least):
            return None
        if how == "since":
            reasons.append(f"it is for {name} since {least}, and {installed} is installed")
            continue
        state = HookState.REFUSED
        reasons.append(f"{name} {installed} is older than {least}")
    return (state, "; ".join(reasons)) if reasons else None


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match.group().split("."))) if match else ()
