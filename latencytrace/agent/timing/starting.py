"""Knows whether a server loads its application or has it start up, before it serves anyone."""

from collections.abc import Callable


class Starting:
    """Servers of this process that start at the moment."""

    __slots__ = ("under_way",)

    def __init__(self) -> None:
        self.under_way = 0

    def begin(self) -> Callable[[], None]:
        """A start begins; what is returned ends it, once."""
        self.under_way += 1
        ended = False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                self.under_way -= 1

        return end
