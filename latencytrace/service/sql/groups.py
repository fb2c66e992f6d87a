"""The questions about a cohort by a label or an attribute: its values, each with its requests."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from latencytrace.model.cohorts.overview import Group, Groups, Summary
from latencytrace.service.cohort import LABELS, Cohort
from latencytrace.service.plain_answers import MOST_KEYS
from latencytrace.service.sql.counting import Standing
from latencytrace.service.sql.overview import LINES, longest, rows_from, summary_fields, together
from latencytrace.service.sql.questions import Parameters, Query, counted, rows_of

_OTHERS, _WITHOUT = 1, 2  # parts of a cohort that are no single value


def groups(
    query: Query, cohort: Cohort, by: str, column_ns: int, limit: int, standing: Standing
) -> Groups:
    """Ask for the values that took most time, then for all requests by these values."""
    rows, bound = rows_of(cohort, standing)
    if by not in LABELS:
        bound["by"] = by
    question = (
        f"SELECT assumeNotNull({_value(by)}) AS value FROM {rows} WHERE {_has(by)} "
        f"GROUP BY value ORDER BY {longest(standing)} DESC, value LIMIT {{limit:UInt32}}"
    )
    found = rows_from(query(question, LINES, {**bound, "limit": limit}))
    values = [cast(str, one["value"]) for one in found]
    # A row for each of these, one for all others, one for those without.
    value = f"ifNull({_value(by)}, '')"
    part = (
        f"multiIf(isNull({_value(by)}), {_WITHOUT}, "
        f"{value} IN {{values:Array(String)}}, 0, {_OTHERS})"
    )
    unsure = "0" if by in LABELS else standing.counting.count("AttributesLeftOut > 0")
    question = (
        f"SELECT {part} AS part, if(part = 0, {value}, '') AS value, "
        f"uniqExact({value}) AS found, {unsure} AS unsure, {together(standing)} "
        f"FROM {rows} GROUP BY part, value"
    )
    answer = query(question, LINES, {**bound, "values": values, "column_ns": column_ns})
    return _groups_from(rows_from(answer), values)


def _groups_from(rows: Sequence[dict[str, Any]], values: Iterable[str]) -> Groups:
    """Read the answer to the second question; the groups are in the order of these values."""
    by_value = {row["value"]: row for row in rows if not row["part"]}
    parts = {row["part"]: row for row in rows}
    others, without = parts.get(_OTHERS), parts.get(_WITHOUT)
    return Groups(
        groups=tuple(
            Group(value=value, **summary_fields(by_value[value]))
            for value in values
            if value in by_value
        ),
        others=Summary(**summary_fields(others)) if others else None,
        other_values=others["found"] if others else 0,
        without=Summary(**summary_fields(without)) if without else None,
        unsure=without["unsure"] if without else 0,
    )


def keys_question(cohort: Cohort, standing: Standing) -> tuple[str, Parameters]:
    """The keys of attributes, and how many requests have each."""
    rows, bound = rows_of(cohort, standing)
    question = (
        f"SELECT key, {standing.counting.count()} AS requests FROM {rows} "
        "ARRAY JOIN arrayDistinct(`Attributes.Key`) AS key "
        f"GROUP BY key ORDER BY requests DESC, key LIMIT {MOST_KEYS}"
    )
    return question, bound


def versions_question(
    cohort: Cohort, standing: Standing, *, inner: bool = False
) -> tuple[str, Parameters]:
    """Services, their versions, and when the first request of each started."""
    rows, bound = rows_of(cohort, standing, counted, outermost=not inner)
    question = (
        "SELECT ServiceName, assumeNotNull(ServiceVersion) AS version, "
        f"toUnixTimestamp64Nano(min(Start)) FROM {rows} "
        "WHERE isNotNull(ServiceVersion) GROUP BY ServiceName, version"
    )
    return question, bound


def _has(by: str) -> str:
    """The condition that a request has a value of it."""
    return f"isNotNull({LABELS[by]})" if by in LABELS else "has(`Attributes.Key`, {by:String})"


def _value(by: str) -> str:
    """The value of a label, or the first one of an attribute; null: there is none."""
    if by in LABELS:
        return f"CAST({LABELS[by]}, 'Nullable(String)')"
    place = "indexOf(`Attributes.Key`, {by:String})"
    return f"if({place} = 0, NULL, `Attributes.Value`[{place}])"
