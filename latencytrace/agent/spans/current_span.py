"""Spans that are current during a block, and functions whose every call is one."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import ParamSpec, TypeVar, cast

from opentelemetry.trace import Span

P = ParamSpec("P")
R = TypeVar("R")
Block = AbstractContextManager[Span]


def traced_calls(function: Callable[P, R], begin: Callable[[], Block]) -> Callable[P, R]:
    """The function, with a span of its own around each call.

    Args:
        function: Sync or async.
        begin: Starts a span, which is current while it is entered.
    """
    if iscoroutinefunction(function):

        @wraps(function)
        async def traced_async(*args: P.args, **kwargs: P.kwargs) -> object:
            with begin():
                return await function(*args, **kwargs)

        return cast("Callable[P, R]", traced_async)

    @wraps(function)
    def traced(*args: P.args, **kwargs: P.kwargs) -> R:
        with begin():
            return function(*args, **kwargs)

    return traced


class CurrentSpan(Block):
    """A span that starts where its block begins, or whenever a function it decorates is called.

    A plain span of ours is its own block, which costs less. This is for spans that code of
    the program's decides on or is shown, and for what a decorator could not say again.

    Args:
        begin: Starts a span, which is current while it is entered.
        begin_first: Does so where a block is entered; None: as `begin`.
    """

    __slots__ = ("_begin", "_begin_first", "_block")

    def __init__(
        self, begin: Callable[[], Block], begin_first: Callable[[], Block] | None = None
    ) -> None:
        self._begin = begin
        self._begin_first = begin_first or begin
        self._block: Block | None = None

    def __enter__(self) -> Span:
        begin, self._begin_first = self._begin_first, self._begin
        self._block = begin()
        return self._block.__enter__()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        block, self._block = self._block, None
        return None if block is None else block.__exit__(exc_type, exc_val, exc_tb)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate: each call of the function is a span of its own."""
        return traced_calls(function, self._begin)
