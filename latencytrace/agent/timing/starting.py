"""Knows whether a server loads its application or has it start up, before it serves anyone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import OnFault, guarded


class Starting:
    """Servers of this process that start at the moment, and when an application started up."""

    __slots__ = ("began_ns", "ended_ns", "under_way")

    def __init__(self) -> None:
        self.under_way = 0
        self.began_ns = 0  # when the first start-up of an application began, in monotonic time
        self.ended_ns = 0  # and when the last one ended

    def begin(self, *, starts_up: bool = False) -> Callable[[], None]:
        """A start begins; what is returned ends it, once.

        Args:
            starts_up: The application does: all of it is there by now.
        """
        self.under_way += 1
        if starts_up:
            self.began_ns = self.ended_ns = self.began_ns or monotonic_ns()
        ended = False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                self.under_way -= 1
                if starts_up:
                    self.ended_ns = monotonic_ns()

        return end

    @contextmanager
    def noted(self, on_fault: OnFault, *, starts_up: bool = False) -> Iterator[Callable[[], None]]:
        """Note a start for as long as the block lasts, or until what it gets is called."""
        ends: list[Callable[[], None]] = []

        def end() -> None:
            with guarded("noting that a server starts", on_fault):
                for each in ends:
                    each()

        with guarded("noting that a server starts", on_fault):
            ends.append(self.begin(starts_up=starts_up))
        try:
            yield end
        finally:
            end()
