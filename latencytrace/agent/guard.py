"""Keeps our own faults out of the traced program: the only broad `except` of the code."""

import logging
import signal
import threading
import traceback
from collections.abc import Callable
from functools import wraps
from types import CodeType, TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from latencytrace.model.texts.secrets import text_shown

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
U = TypeVar("U")

OnFault = Callable[[str, Exception], None]


class _Unfailing(logging.LoggerAdapter[logging.Logger]):
    """Drops what the program's logging cannot take: a handler raises, or a stream is closed."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        try:
            super().log(level, msg, *args, stacklevel=kwargs.pop("stacklevel", 1) + 1, **kwargs)
        except Exception:
            return


logger: Final = _Unfailing(logging.getLogger("latencytrace"), {})


def is_a_signals(fault: BaseException) -> bool:
    """Tell whether a signal's handler raised it, such as a time limit while our code ran.

    That is the program's own, and must reach it; we are called again only once it has.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    frames = traceback.walk_tb(fault.__traceback__) if codes else ()
    return any(frame.f_code in codes for frame, _ in frames)


def _code_of(handler: object) -> CodeType | None:
    """Return the code that a handler runs; None: nothing of Python's."""
    function = getattr(handler, "func", handler)  # of a partial
    function = getattr(function, "__func__", function)  # of a method
    if not hasattr(function, "__code__"):
        function = getattr(type(function), "__call__", None)  # noqa: B004 - the function is wanted
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


class guarded:  # noqa: N801 - reads as the statement that it is
    """Hand what our own code raises to `on_fault` instead of the traced program.

    A class, since a generator-based context manager costs four times as much.
    """

    __slots__ = ("_doing", "_on_fault")

    def __init__(self, doing: str, on_fault: OnFault) -> None:
        self._doing = doing
        self._on_fault = on_fault

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        fault: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool:
        if not isinstance(fault, Exception) or is_a_signals(fault):
            return False
        self._on_fault(self._doing, fault)
        return True


class FaultCounter:
    """Counts our own faults and logs the first of each kind: the `on_fault` of production."""

    def __init__(self) -> None:
        self.faults = 0
        self._logged: set[str] = set()

    def __call__(self, doing: str, fault: Exception) -> None:
        """Count one fault; log it if none like it was logged before.

        Raises:
            Exception: The fault itself, if it is none of ours.
        """
        if is_a_signals(fault):
            raise fault
        self.faults += 1
        kind = f"{doing}: {type(fault).__name__}"
        if kind not in self._logged and len(self._logged) < 100:  # noqa: PLR2004 - a bound
            self._logged.add(kind)
            logger.warning(
                "latencytrace failed %s and goes on without (logged once): %s",
                doing,
                text_shown(attempted(lambda: repr(fault), otherwise=type(fault).__name__)),
            )


# What an edge catches where a `with guarded` would cost a tenth of what it guards. An edge is
# a function that the program calls itself: no frame of ours stands above it.
FAULTS: Final = Exception
edge_faults: Final = FaultCounter()


def contained(doing: str) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    """Keep an edge's own faults in; for edges that are not called so often."""

    def keep_in(function: Callable[P, R]) -> Callable[P, R | None]:
        @wraps(function)
        def edge(*args: P.args, **kwargs: P.kwargs) -> R | None:
            try:
                return function(*args, **kwargs)
            except Exception as fault:
                edge_faults(doing, fault)  # raises it again if it is not ours
                return None

        return edge

    return keep_in


def raise_fault(doing: str, fault: Exception) -> None:
    """Raise our own fault again: the `on_fault` of the tests."""
    fault.add_note(f"latencytrace was {doing}")
    raise fault


def attempted(call: Callable[[], T], *, otherwise: U) -> T | U:
    """Return what a call into an object of the program's gives; something else if it raises."""
    try:
        return call()
    except Exception as fault:
        if is_a_signals(fault):
            raise
        return otherwise


def text_of(value: object) -> str:
    """A value as text, also one with a `__str__` that raises."""
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)  # an enum's value, as in the SDK: `str` may not say it
    return attempted(lambda: str(value), otherwise=f"<{type(value).__name__}>")
