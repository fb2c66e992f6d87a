"""What a query asks for: its selectors, with what is done to them, and the labels it groups by."""

from dataclasses import dataclass
from datetime import timedelta

import promql_parser
from promql_parser import AggregateExpr, BinaryExpr, Call, Expr, MatrixSelector, VectorSelector


@dataclass(frozen=True, slots=True)
class Selector:
    """One selector of a query."""

    metric: str
    matched: dict[str, str]  # label → value
    period: timedelta | None  # of its range
    function: str | None  # what its range is given to


def selectors(query: str) -> list[Selector]:
    """Every selector of a query."""
    found: list[Selector] = []
    above: list[Expr] = []

    def enter(expr: Expr) -> None:
        if isinstance(expr, VectorSelector):
            found.append(_selector(expr, above))
        above.append(expr)

    def leave(_: Expr) -> None:
        above.pop()

    promql_parser.walk(promql_parser.parse(query), enter, leave)
    return found


def grouped_labels(query: str) -> set[str]:
    """The labels that a query groups or joins by."""
    labels: set[str] = set()

    def enter(expr: Expr) -> None:
        if isinstance(expr, AggregateExpr) and expr.modifier:
            labels.update(expr.modifier.labels)
        elif isinstance(expr, BinaryExpr) and expr.modifier and expr.modifier.matching:
            labels.update(expr.modifier.matching.labels)

    promql_parser.walk(promql_parser.parse(query), enter)
    return labels


def _selector(expr: VectorSelector, above: list[Expr]) -> Selector:
    matched = {matcher.name: matcher.value for matcher in expr.matchers.matchers}
    match above:
        case [*_, Call() as call, MatrixSelector() as ranged]:
            return Selector(expr.name or "", matched, ranged.range, call.func.name)
        case _:
            return Selector(expr.name or "", matched, None, None)
