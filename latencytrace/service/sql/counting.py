"""Aggregates over requests: each counted once, or as many times as its weight says.

Rows have weights where senders recorded a share of all traces. Where none has, questions are
the plain ones, at no cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from latencytrace.service.sql.tables import REQUESTS

# Rows that were written since `{since:Int64}`, by weeks and days that the engine skips.
ANY_WEIGHT: Final = (
    f"SELECT count() FROM (SELECT 1 FROM {REQUESTS} WHERE Weight != 1 AND NOT Moved "
    "AND Written >= fromUnixTimestamp64Nano({since:Int64}) LIMIT 1)"
)


_WHOLE: Final = "Int128"  # 64 bits do not hold every sum


class Counting(Protocol):
    """Expressions over the rows of a question; a condition says which of them count."""

    number: str  # of requests that a row is, as UInt64

    def count(self, condition: str = "") -> str:
        """How many requests there are."""
        ...

    def known(self, value: str) -> str:
        """How many of them have a value."""
        ...

    def total(self, value: str, condition: str = "") -> str:
        """The sum of a value that is 0 where it is unknown."""
        ...

    def mean(self, value: str, condition: str, kind: str = _WHOLE) -> str:
        """The mean of a value, of the requests that have one; null: none has.

        Args:
            kind: The type that it is summed in: whole numbers to the last one, in any order.
        """
        ...

    def quantiles(self, levels: Sequence[float], value: str, condition: str = "") -> str:
        """Quantiles of a value, of the requests that have one."""
        ...

    def median(self, value: str) -> str:
        """Its median; null: none has one."""
        ...


class ByRow:
    """Each row is a request."""

    number = "toUInt64(1)"

    def count(self, condition: str = "") -> str:
        return f"countIf({condition})" if condition else "count()"

    def known(self, value: str) -> str:
        return f"count({value})"

    def total(self, value: str, condition: str = "") -> str:
        return f"sumIf({value}, {condition})" if condition else f"sum({value})"

    def mean(self, value: str, condition: str, kind: str = _WHOLE) -> str:
        return f"avgIf(to{kind}({value}), {condition})"

    def quantiles(self, levels: Sequence[float], value: str, condition: str = "") -> str:
        """Interpolate between two values in proportion."""
        listed = ", ".join(map(str, levels))
        if not condition:
            return f"quantilesExactInclusive({listed})({value})"
        return f"quantilesExactInclusiveIf({listed})({value}, {condition})"

    def median(self, value: str) -> str:
        return f"quantileExactInclusiveOrNull(0.5)({value})"


BY_ROW: Final[Counting] = ByRow()


class ByWeight:
    """Each row is as many requests as its weight says."""

    number = "toUInt64(Weight)"

    def count(self, condition: str = "") -> str:
        return f"sumIf(Weight, {condition})" if condition else "sum(Weight)"

    def known(self, value: str) -> str:
        return f"sumIf(Weight, isNotNull({value}))"

    def total(self, value: str, condition: str = "") -> str:
        weighted = f"toFloat64({value}) * Weight"  # 64 bits do not hold every sum
        return f"sumIf({weighted}, {condition})" if condition else f"sum({weighted})"

    def mean(self, value: str, condition: str, kind: str = _WHOLE) -> str:
        having = f"{condition} AND isNotNull({value})"
        weighted = f"sumIf(toFloat64({value}) * Weight, {having}) / sumIf(Weight, {having})"
        return (
            f"if(maxIf(Weight, {having}) > 1, {weighted}, {BY_ROW.mean(value, condition, kind)})"
        )

    def quantiles(self, levels: Sequence[float], value: str, condition: str = "") -> str:
        """The least value that so many requests are within.

        Where each row is one request after all, as if there were no weights.
        """
        listed = ", ".join(map(str, levels))
        having = f"isNotNull({value})" + f" AND {condition}" * bool(condition)
        weighted = f"quantilesExactWeightedIf({listed})({value}, Weight, {having})"
        return (
            f"if(maxIf(Weight, {having}) > 1, arrayMap(one -> toFloat64(one), {weighted}), "
            f"{BY_ROW.quantiles(levels, value, condition)})"
        )

    def median(self, value: str) -> str:
        weighted = f"toFloat64(quantileExactWeightedOrNull(0.5)({value}, Weight))"
        return f"if(maxIf(Weight, isNotNull({value})) > 1, {weighted}, {BY_ROW.median(value)})"


BY_WEIGHT: Final[Counting] = ByWeight()


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
