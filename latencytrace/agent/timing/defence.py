"""The last line of defence: a call that fails in our hands before the original is reached.

The original is called as it would have been without us, and the patch takes itself away:
`Patches` put the original back, or the patch only calls the original from then on.
"""

from collections.abc import Callable, Generator
from functools import partial, update_wrapper, wraps
from inspect import CO_VARARGS, isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from itertools import count
from types import CodeType, FunctionType
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary, WeakSet

from latencytrace.agent.guard import FAULTS, attempted, edge_faults, is_a_signals
from latencytrace.agent.timing.hook import Timed


class Patched(Protocol):
    """Puts originals back."""

    def withdraw(self, function: Timed) -> None:
        """Put back what a function of ours stands for, wherever it does."""


DEFENDED: Final[set[CodeType]] = set()  # of functions that need no `defended` around them
patched: Final[WeakSet[Patched]] = WeakSet()
_quiet: Final[WeakKeyDictionary[Timed, Callable[[], None]]] = WeakKeyDictionary()


def quieted_by(function: Timed, quiet: Callable[[], None]) -> None:
    """Note what has a function of ours only call its original from then on."""
    _quiet[function] = quiet


def let_be(function: object) -> None:
    """Have a function of ours only call its original: another's patch holds on to it."""
    quiet = _quiet.get(function) if type(function) is FunctionType else None
    if quiet is not None:
        quiet()


def give_up(function: Timed, fault: Exception) -> None:
    """Count and log a fault of a function of ours, and take the function away.

    Raises:
        Exception: The fault itself, if it is none of ours.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    edge_faults(f"in the place of {name}, which it no longer patches,", fault)
    if isinstance(fault, (RecursionError, MemoryError)):
        return  # of the program's making, and soon over
    attempted(partial(_take_away, function), otherwise=None)


def _take_away(function: Timed) -> None:
    let_be(function)
    for one in list(patched):
        one.withdraw(function)


class _Reach:
    """Tells whether an original was called since: each call of it has a number of its own."""

    __slots__ = ("latest", "number")

    def __init__(self) -> None:
        self.latest = 0
        self.number = count(1).__next__  # at once, whichever thread asks


def defended(build: Callable[[Timed], Timed], original: Timed) -> Timed:
    """Return what a hook builds for an original, with the last line of defence around it.

    Args:
        build: Makes it; it is asked again for one that notes where the original is reached.
        original: Called in its place where it fails.
    """
    built = looking_like(build(original), original)
    if built is original or type(built) is not FunctionType or built.__code__ in DEFENDED:
        return built
    if isasyncgenfunction(built) or isasyncgenfunction(original) or _refuses_at_once(built):
        return built
    reach = _Reach()
    built = looking_like(build(_noting(original, reach)), original)
    if iscoroutinefunction(built):
        return _defended_coroutine(built, original, reach)
    if isgeneratorfunction(built):
        return _defended_generator(built, original, reach)
    return _defended_function(built, original, reach)


def looking_like(built: Timed, original: Timed) -> Timed:
    """Return what stands in a function's place, with its name, signature and documentation."""
    if type(built) is FunctionType and not hasattr(built, "__wrapped__"):
        update_wrapper(built, original)
    return built


def _refuses_at_once(built: FunctionType) -> bool:
    """Tell whether a wrong call of a coroutine function raises before it is awaited.

    Servers call an application to learn what it takes. These functions keep their faults in.
    """
    return iscoroutinefunction(built) and not built.__code__.co_flags & CO_VARARGS


def _noting(original: Timed, reach: _Reach) -> Timed:
    """Return the same function, of the same kind, which notes that it was reached."""
    if iscoroutinefunction(original):

        @wraps(original)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            reach.latest = reach.number()
            return await original(*args, **kwargs)

        return awaited
    if isgeneratorfunction(original):

        @wraps(original)
        def each(*args: Any, **kwargs: Any) -> Any:
            reach.latest = reach.number()
            return (yield from original(*args, **kwargs))

        return each

    @wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        reach.latest = reach.number()
        return original(*args, **kwargs)

    return called


def _defended_function(built: Timed, original: Timed, reach: _Reach) -> Timed:
    call = built

    @wraps(built)
    def function(*args: Any, **kwargs: Any) -> Any:
        before = reach.latest
        try:
            return call(*args, **kwargs)
        except FAULTS as error:
            if call is original or reach.latest != before or is_a_signals(error):
                raise
            fault = error
        result = original(*args, **kwargs)  # a wrong call raises here as it ever did
        give_up(function, fault)
        return result

    def quiet() -> None:
        nonlocal call
        call = original

    quieted_by(function, quiet)
    return function


def _defended_coroutine(built: Timed, original: Timed, reach: _Reach) -> Timed:
    call = built

    @wraps(built)
    async def function(*args: Any, **kwargs: Any) -> Any:
        before = reach.latest
        try:
            return await call(*args, **kwargs)
        except FAULTS as error:
            if call is original or reach.latest != before or is_a_signals(error):
                raise
            fault = error
        result = await original(*args, **kwargs)
        give_up(function, fault)
        return result

    def quiet() -> None:
        nonlocal call
        call = original

    quieted_by(function, quiet)
    return function


def _defended_generator(built: Timed, original: Timed, reach: _Reach) -> Timed:
    call = built

    @wraps(built)
    def function(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        before = reach.latest
        try:
            return (yield from call(*args, **kwargs))
        except FAULTS as error:
            if call is original or reach.latest != before or is_a_signals(error):
                raise
            fault = error
        give_up(function, fault)
        return (yield from original(*args, **kwargs))

    def quiet() -> None:
        nonlocal call
        call = original

    quieted_by(function, quiet)
    return function
