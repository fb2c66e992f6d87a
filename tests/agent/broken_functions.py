"""Every function of the agent's, and a way to break one: whoever calls it gets an error."""

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType

from latencytrace import agent


class InjectedError(Exception):
    """A fault of ours that the program must never see."""


def _broken() -> None:
    raise __import__("tests.agent.broken_functions", fromlist=["InjectedError"]).InjectedError


class Target:
    """One function's code, or that of a function that it makes.

    Args:
        owner: The function of a module or class.
        path: Where in its constants the code lies; empty: its own.
        code: The code.
    """

    def __init__(self, owner: FunctionType, path: tuple[int, ...], code: CodeType) -> None:
        self._owner = owner
        self._path = path
        self.code = code
        self.name = f"{owner.__module__.removeprefix('latencytrace.agent.')}:{code.co_qualname}"

    @contextmanager
    def broken(self) -> Iterator[None]:
        """Let every call of it raise, wherever the function is referred to from."""
        before = self._owner.__code__
        self._owner.__code__ = _replaced(before, self._path)
        try:
            yield
        finally:
            self._owner.__code__ = before


def targets() -> list[Target]:
    """Every function of the agent's that is written in Python, those within others too."""
    return [
        Target(function, path, code)
        for module in _modules()
        for function in _functions(module)
        for path, code in _codes(function.__code__, ())
    ]


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(agent.__path__, f"{agent.__name__}."):
        if not found.name.endswith("sitecustomize"):
            yield importlib.import_module(found.name)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    seen: set[int] = set()
    waiting: list[object] = list(vars(module).values())
    while waiting:
        found = waiting.pop()
        if isinstance(found, (staticmethod, classmethod)):
            found = found.__func__
        if isinstance(found, property):
            waiting += [found.fget, found.fset]
        elif id(found) in seen or getattr(found, "__module__", None) != module.__name__:
            continue
        elif isinstance(found, type):
            seen.add(id(found))
            waiting += vars(found).values()
        elif isinstance(found, FunctionType):
            seen.add(id(found))
            waiting.append(getattr(found, "__wrapped__", None))
            if found.__code__.co_filename == module.__file__:
                yield found


def _codes(code: CodeType, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], CodeType]]:
    yield path, code
    for number, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType) and not constant.co_name.startswith("<"):
            yield from _codes(constant, (*path, number))


def _replaced(code: CodeType, path: tuple[int, ...]) -> CodeType:
    if not path:
        own = _broken.__code__
        return own.replace(
            co_argcount=code.co_argcount,
            co_posonlyargcount=code.co_posonlyargcount,
            co_kwonlyargcount=code.co_kwonlyargcount,
            co_varnames=code.co_varnames,
            co_nlocals=code.co_nlocals,
            co_flags=code.co_flags,
            co_freevars=code.co_freevars,
            co_name=code.co_name,
            co_qualname=code.co_qualname,
        )
    first, *rest = path
    constants = list(code.co_consts)
    constants[first] = _replaced(constants[first], tuple(rest))
    return code.replace(co_consts=tuple(constants))
