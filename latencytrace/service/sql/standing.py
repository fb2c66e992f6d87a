"""The rows of `requests` that stand: the highest revision of each request, none that moved."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from latencytrace.service.sql.counting import BY_ROW, BY_WEIGHT, Counting
from latencytrace.service.sql.tables import REQUESTS

WINDOW: Final = "toStartOfFiveMinutes(Start)"  # with which the rows are in order


def windows(name: str) -> str:
    """Windows that a question binds as their seconds since the Unix epoch."""
    return f"CAST({{{name}:Array(UInt32)}}, 'Array(DateTime(\\'UTC\\'))')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Tells how the rows that stand are read.

    `FINAL` finds them wherever they are and reads five times as long. It is left out in windows
    that are known to hold no request twice.
    """

    unmerged: tuple[int, ...] | None = None  # windows that need it; None: all of them
    weighted: bool = False  # some stand for several requests, for their senders sampled

    @property
    def counting(self) -> Counting:
        return BY_WEIGHT if self.weighted else BY_ROW

    def rows(self, condition: str, columns: str = "*") -> str:
        """Return the rows that stand and meet a condition, as what follows `FROM`."""
        final = f"SELECT {columns} FROM {REQUESTS} FINAL WHERE ({condition})"
        if self.unmerged is None:
            return f"({final})"
        plain = f"SELECT {columns} FROM {REQUESTS} WHERE NOT Moved AND ({condition})"
        if not self.unmerged:
            return f"({plain})"
        listed = windows("unmerged")
        return f"({plain} AND {WINDOW} NOT IN {listed} UNION ALL {final} AND {WINDOW} IN {listed})"

    def bound(self) -> Mapping[str, object]:
        """Return what the question binds for it."""
        return {"unmerged": self.unmerged} if self.unmerged else {}


WITH_FINAL: Final = Standing()
