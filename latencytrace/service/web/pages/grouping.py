"""The part of a page that shows its requests by a label or an attribute."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
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
from latencytrace.service.answers.overview_documents import TIMELINE_COLUMNS
from latencytrace.service.store import Store
from latencytrace.service.web.drawing.bars import trend
from latencytrace.service.web.pages.cohort_bar import Asked
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.rendering import Address

BY: Final = "by"  # the parameter of a page
_SAVED: Final = ("requests", "failed", "p50_ns", "p95_ns", "p99_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A value, all other values, or no value."""

    name: str
    summary: SummaryDocument
    only: Address | None = None  # the page of these requests alone
    but: Address | None = None  # the page without them


def grouping(store: Store, question: Asked, path: str) -> Mapping[str, object]:
    """Context of a page that groups its requests."""
    by = question.parameters.get(BY)

    @cache
    def found() -> GroupsDocument:
        return groups(store, question.cohort, by or "", question.now_ns)

    def keys() -> AttributeKeysDocument:
        return attribute_keys(store, question.cohort)

    return {
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


def group_trend(one: SummaryDocument) -> Markup:
    """The p99 of a row over time."""
    columns = [(each["column"], float(each["p99_ns"])) for each in one["timeline"]]
    return trend(columns, TIMELINE_COLUMNS, {})
