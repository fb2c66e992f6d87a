"""The part of a page that shows its requests by a label or an attribute."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from markupsafe import Markup

from latencytrace.model.texts.units import count
from latencytrace.service.answers.groups import (
    AttributeKeysDocument,
    GroupsDocument,
    SummaryDocument,
    attribute_keys,
    groups,
)
from latencytrace.service.answers.overview_documents import TimeColumnDocument
from latencytrace.service.cohort import group_key
from latencytrace.service.store import Store
from latencytrace.service.web.drawing.bars import SPARK_HEIGHT, SPARK_WIDTH, trend
from latencytrace.service.web.drawing.releases import Release, release_lines
from latencytrace.service.web.pages.cohort_bar import Asked
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.rendering import Address

BY: Final = "by"  # the parameter of a page
FAILING: Final = 0.05  # of some requests, from which on it is a case for red
_SAVED: Final = ("requests", "failed", "p50_ns", "p95_ns", "p99_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A value, all other values, or no value."""

    name: str
    summary: SummaryDocument
    only: Address | None = None  # the page of these requests alone
    but: Address | None = None  # the page without them

    @property
    def is_failing(self) -> bool:
        """Tell whether so many failed that it is a case for red."""
        return self.summary["failed"] >= FAILING * self.summary["requests"]


def grouping(store: Store, question: Asked, path: str) -> Mapping[str, object]:
    """Context of a page that groups its requests."""
    by = question.parameters.get(BY)

    @cache
    def found() -> GroupsDocument:
        return groups(store, question.cohort, by or "", question.now_ns)

    def keys() -> AttributeKeysDocument:
        return attribute_keys(store, question.cohort)

    return {
        "check": by and partial(group_key, by),
        "by": by,
        "groups": found,
        "group_rows": lambda: list(rows(question, path, found())),
        "group_trend": group_trend,
        "keys": keys,
        "groups_json": question.link("/api/v1/breakdown/groups", by=by),
    }


def group_files(store: Store, question: Asked) -> list[Export]:
    """Files of a group that can be saved."""
    by = question.parameters.get(BY)
    if not by:
        return []

    def saved() -> list[Mapping[str, object]]:
        found = groups(store, question.cohort, by, question.now_ns)
        return [
            {by: row.name, **{name: row.summary[name] for name in _SAVED}}
            for row in rows(question, "", found)
        ]

    return [Export("groups.csv", saved)]


def rows(question: Asked, path: str, found: GroupsDocument) -> Iterator[Row]:
    """The parts of a cohort, which add up to it."""
    by = found["by"]
    for one in found["groups"]:
        value = one["value"]
        yield Row(
            name=value if value.strip() else "(blank)",
            summary=one,
            only=question.having(path, by, value) if value.strip() else None,
            but=question.again(path, without=question.more("without", by, value)),
        )
    if found["others"]:
        yield Row(name=count(found["other_values"], "other value"), summary=found["others"])
    if found["without"]:
        yield Row(name=f"no {by}", summary=found["without"])


def group_trend(found: GroupsDocument, one: SummaryDocument) -> Markup:
    """The p99 of a row over time."""
    times_ns = int(found["since"]), int(found["until"])
    return small_trend(one["timeline"], times_ns, found["column_ns"])


def small_trend(
    timeline: Sequence[TimeColumnDocument],
    times_ns: tuple[int, int],
    column_ns: int,
    releases: Sequence[Release] = (),
) -> Markup:
    """The p99 over time in a cell of a table, with lines where versions began.

    Args:
        timeline: Columns that have requests.
        times_ns: Beginning and end of the cohort, Unix time.
        column_ns: The length of a column.
        releases: The versions.
    """
    since_ns, until_ns = times_ns
    columns = [(each["column"], float(each["p99_ns"])) for each in timeline]
    count = -(-(until_ns - since_ns) // column_ns)

    def x(at_ns: int) -> float:
        return SPARK_WIDTH * (at_ns - since_ns) / (count * column_ns)

    return trend(columns, count, release_lines(releases, x, 0, SPARK_HEIGHT))
