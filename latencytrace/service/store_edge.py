"""The edge to the engine of a store: each exception behind it is a `StoreError` before it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from traceback import extract_tb
from types import FunctionType
from typing import Any, Final, TypeVar

from latencytrace.errors import LatencytraceError, StoreError

_MESSAGE_CHARS: Final = 500
T = TypeVar("T")


class StoreEdge:
    """A class whose public methods raise our own errors and no others, those of subclasses too.

    An engine may raise anything: what it fails at is tried again, and nothing is lost for it.
    """

    def __init_subclass__(cls) -> None:
        """Guard the methods of a subclass."""
        super().__init_subclass__()
        for name, method in vars(cls).copy().items():
            if isinstance(method, FunctionType) and not name.startswith("_"):
                setattr(cls, name, _guarded(method))


@contextmanager
def engine_faults(asked: str) -> Iterator[None]:
    """Raise what is not our own error as a `StoreError`."""
    try:
        yield
    except LatencytraceError:
        raise
    except Exception as error:
        raise StoreError(f"the store failed at `{asked}`: {_reason(error)}") from error


def _guarded(method: Callable[..., T]) -> Callable[..., T]:
    @wraps(method)
    def at_edge(*args: Any, **named: Any) -> T:
        with engine_faults(method.__name__):
            found = method(*args, **named)
        # What reads as it is iterated fails as it is iterated.
        return _each(method.__name__, found) if isinstance(found, Iterator) else found  # type: ignore[return-value]

    return at_edge


def _each(asked: str, found: Iterator[T]) -> Iterator[T]:
    with engine_faults(asked):
        yield from found


def _reason(error: Exception) -> str:
    """The error, and the line that raised it: reports have no traceback."""
    frame = extract_tb(error.__traceback__)[-1]
    return f"{error!r:.{_MESSAGE_CHARS}} ({frame.filename.rpartition('/')[2]}:{frame.lineno})"
