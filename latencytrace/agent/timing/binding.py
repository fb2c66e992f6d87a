"""An attribute as Python calls it, and what takes its place: by the descriptor protocol.

Another tool may have patched it before us, or the program may have put there whatever it likes:
what it is to be called with is its own affair (`__get__`), and what it says that it is
(`isinstance`) may be what it stands for. Only a plain function is called past `__get__`.
"""

import sys
from collections.abc import Callable
from functools import partial, update_wrapper
from types import (
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import Any, Final, NamedTuple

from latencytrace.agent.guard import attempted
from latencytrace.agent.timing.hook import Timed

MISSING: Final = object()
_DIRECT: Final = {
    FunctionType,
    MethodDescriptorType,
    WrapperDescriptorType,
}  # of which a call binds
_MAY_CHANGE: Final = 1 << 9  # a class of the heap
_IMMUTABLE: Final = 1 << 8


class Attribute(NamedTuple):
    """An attribute of a class or a module.

    Args:
        function: What a hook is given as the original, called with the instance or class first.
        in_place: Makes what the owner is to have of what the hook built.
    """

    function: Timed
    in_place: Callable[[Any], Any]


def raw_attribute(owner: Any, name: str) -> Any:
    """Return what a class or one of its bases has, or what a module gives; else `MISSING`.

    A class's `__call__` is never that of its metaclass.
    """
    if not isinstance(owner, type):
        return getattr(owner, name, MISSING)
    return next((vars(kind)[name] for kind in owner.__mro__ if name in vars(kind)), MISSING)


def attribute(owner: Any, name: str, raw: Any) -> Attribute:
    """Return how an attribute is called, and replaced.

    Args:
        raw: As `raw_attribute` gives it.
    """
    found = _of_class(owner, name, raw) if isinstance(owner, type) else _of_module(raw)
    found = found._replace(function=_plainly_named(found.function))
    wrapper: Any = getattr(sys.modules.get("wrapt"), "FunctionWrapper", None)
    if not isinstance(wrapper, type) or not issubclass(type(raw), wrapper):
        return found
    return Attribute(found.function, lambda built: wrapper(found.in_place(built), _same))


def _same(wrapped: Timed, _instance: object, args: Any, kwargs: Any) -> Any:
    """Call what a wrapper of wrapt's kind holds, by which kind tools know their own."""
    return wrapped(*args, **kwargs)


def _of_class(owner: type, name: str, raw: Any) -> Attribute:
    kind = type(raw)
    is_inherited = name not in vars(owner) and _can_be_patched(owner, name)
    if not is_inherited and (kind in _DIRECT or kind.__name__ == "cython_function_or_method"):
        return Attribute(raw, _as_it_is)
    descriptor = _Inherited(owner, name) if is_inherited else raw
    if not hasattr(kind, "__get__") or kind is MethodType or isinstance(raw, staticmethod):
        call = _looks_like(owner, name, raw, _free(descriptor, owner)) if is_inherited else raw
        call = raw.__get__(None, owner) if isinstance(call, staticmethod) else call
        return Attribute(call, _of_kind(staticmethod))
    if isinstance(raw, classmethod) or kind is ClassMethodDescriptorType:
        is_plain = kind is classmethod and type(raw.__func__) is FunctionType and not is_inherited
        call = raw.__func__ if is_plain else _bound_to_class(descriptor)
        call = call if is_plain else _looks_like(owner, name, raw, call)
        return Attribute(call, _of_kind(classmethod))
    if not is_called(raw):
        return Attribute(raw, _as_it_is)  # a property: a hook must know it
    call = _looks_like(owner, name, raw, _bound(descriptor))
    is_method = isinstance(raw, FunctionType) or kind in _DIRECT
    return Attribute(call, _as_it_is if is_method else partial(_Method, descriptor))


def _plainly_named(function: Timed) -> Timed:
    """Return a function whose name a wrapper can take: that of a program's mock may be one."""
    if all(isinstance(getattr(function, name, ""), str) for name in ("__name__", "__qualname__")):
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


class _Inherited:
    """Looks an inherited attribute up at each call: its class may be patched later."""

    def __init__(self, owner: type, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return getattr(super(self._owner, owner if instance is None else instance), self._name)


def function_of(own: Any) -> Any:
    """Return the function in what a class or module has; what only looks like one is itself."""
    if isinstance(own, Unbound):
        return own.built
    if getattr(own, "_self_wrapper", None) is _same:
        own = own.__wrapped__
    return own.__func__ if type(own) in {staticmethod, classmethod, MethodType} else own


def is_called(raw: object) -> bool:
    """Tell whether what a class has may be a method: what holds data of its instances is none."""
    return callable(raw) or not hasattr(type(raw), "__set__")


def _of_module(raw: Any) -> Attribute:
    if type(raw) is MethodType:
        return Attribute(raw.__func__, partial(_method_of, raw.__self__))
    if hasattr(type(raw), "__get__") or isinstance(raw, type):
        return Attribute(raw, _as_it_is)
    return Attribute(raw, lambda built: Unbound(built) if type(built) is FunctionType else built)


def _can_be_patched(owner: type, name: str) -> bool:
    """Tell whether the class that an attribute is inherited from can be changed."""
    bases = (kind for kind in owner.__mro__ if name in vars(kind))
    flags = next((kind.__flags__ for kind in bases), _IMMUTABLE)
    return bool(flags & _MAY_CHANGE) and not flags & _IMMUTABLE


def _bound(raw: Any) -> Timed:
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return raw.__get__(self, type(self))(*args, **kwargs)

    return call


def _free(raw: Any, owner: type) -> Timed:
    def call(*args: Any, **kwargs: Any) -> Any:
        return raw.__get__(None, owner)(*args, **kwargs)

    return call


def _bound_to_class(raw: Any) -> Timed:
    def call(cls: type, /, *args: Any, **kwargs: Any) -> Any:
        return raw.__get__(None, cls)(*args, **kwargs)

    return call


def _looks_like(owner: type, name: str, raw: Any, call: Timed) -> Timed:
    """Return a call of the kind of what a class shows, with its name and signature."""
    from latencytrace.agent.timing.wrapping import as_kind_of

    update_wrapper(call, _plainly_named(getattr(raw, "__func__", raw)))
    shown = attempted(lambda: getattr(owner, name), otherwise=raw)
    return as_kind_of(_plainly_named(shown), call)


def _as_it_is(built: Any) -> Any:
    return built


def _of_kind(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what makes a function one of another kind; a class or a property stays one."""

    def in_place(built: Any) -> Any:
        return built if isinstance(built, (type, property)) else kind(built)

    return in_place


def _method_of(instance: object, function: Timed) -> MethodType:
    return MethodType(function, instance)


class _Method:
    """Stands in the place of a descriptor of the program's or a library's own.

    Args:
        built: What times a call of it by an instance.
    """

    def __init__(self, raw: Any, built: Timed) -> None:
        update_wrapper(self, raw)
        self._raw = raw
        self._built = built

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Return what the descriptor gives; a call by an instance is timed."""
        given = self._raw.__get__(instance, owner)
        is_timed = instance is not None and callable(given) and not isinstance(given, type)
        return MethodType(self._built, instance) if is_timed else given

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._raw(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return what the descriptor has."""
        return getattr(self.__wrapped__, name)


class Unbound:
    """Stands in the place of a function that never binds, such as one in C.

    A class that has it as an attribute does not make a method of it.
    """

    def __init__(self, built: Timed) -> None:
        update_wrapper(self, built)
        self.built = built

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.built(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return what the original has."""
        return getattr(self.__wrapped__, name)

    def __reduce__(self) -> str:
        """Be pickled by name, as a function is."""
        return str(self.__qualname__)
