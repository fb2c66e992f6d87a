"""Documents of a cohort by a label or an attribute, and of the attributes that there are."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from typing_extensions import TypedDict

from latencytrace.errors import NotFoundError
from latencytrace.model import Stage
from latencytrace.model.cohorts.overview import Summary
from latencytrace.model.texts.units import count
from latencytrace.service.answers.documents import document
from latencytrace.service.answers.overview_documents import (
    TIMELINE_COLUMNS,
    TimeColumnDocument,
    column_length_ns,
    times_ns,
)
from latencytrace.service.cohort import LABELS, Cohort, group_key
from latencytrace.service.store import Questions

GROUPS: Final = 50  # values with a row of their own, unless another number is asked for
MOST_GROUPS: Final = 1_000
_NEAREST: Final = 3
_ALIKE: Final = 0.6  # from 0 to 1, as `difflib` counts


class SummaryDocument(TypedDict):
    """Some requests of a cohort together; the parts of a cohort add up to it."""

    requests: int
    share_ratio: float  # of the requests of the cohort
    failed: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    mean_ns: dict[Stage, int]
    timeline: list[TimeColumnDocument]


class GroupDocument(SummaryDocument):
    """The requests with one value."""

    value: str


class GroupsDocument(TypedDict):
    """`GET /breakdown/groups`: each request is in exactly one of its parts."""

    by: str  # a label, or the key of an attribute
    since: str
    until: str
    column_ns: int  # of the timelines
    requests: int
    groups: list[GroupDocument]  # in order of their total time, longest first
    others: SummaryDocument | None  # the requests with any other value
    other_values: int
    without: SummaryDocument | None  # the requests without a value
    unsure: int  # of those without: not all of their attributes are kept


class AttributeKeyDocument(TypedDict):
    """An attribute, and how many requests have it."""

    key: str
    requests: int


class AttributeKeysDocument(TypedDict):
    """`GET /attributes`: what the requests of a cohort can be grouped and filtered by."""

    labels: list[str]
    attributes: list[AttributeKeyDocument]


def groups(
    store: Questions, cohort: Cohort, by: str, now_ns: int, limit: int = GROUPS
) -> GroupsDocument:
    """`GET /breakdown/groups`.

    Raises:
        NotFoundError: There are requests, and none of them has the attribute.
        QuestionError: No request keeps such an attribute.
    """
    key = group_key(by)
    since_ns, until_ns = times_ns(cohort, now_ns)
    column_ns = column_length_ns(since_ns, until_ns, TIMELINE_COLUMNS)
    found = store.groups(cohort, key, column_ns, limit)
    if found.without is not None and not found.groups and key not in LABELS:
        raise NotFoundError(
            no_attribute(key, found.without.requests, store.attribute_keys(cohort))
        )
    parts = [*found.groups, *filter(None, (found.others, found.without))]
    requests = sum(one.requests for one in parts)
    return {
        "by": key,
        "since": str(since_ns),
        "until": str(until_ns),
        "column_ns": column_ns,
        "requests": requests,
        "groups": [{"value": one.value, **_summary(one, requests)} for one in found.groups],
        "others": _summary(found.others, requests) if found.others else None,
        "other_values": found.other_values,
        "without": _summary(found.without, requests) if found.without else None,
        "unsure": found.unsure,
    }


def attribute_keys(store: Questions, cohort: Cohort) -> AttributeKeysDocument:
    """`GET /attributes`."""
    found = store.attribute_keys(cohort)
    return {
        "labels": list(LABELS),
        "attributes": [{"key": key, "requests": number} for key, number in found.items()],
    }


def no_attribute(key: str, requests: int, known: Collection[str]) -> str:
    """Say that no request has an attribute, and which ones there are."""
    none = f"none of {count(requests, 'request')} has the attribute {key!r}"
    near = get_close_matches(key, [*known, *LABELS], _NEAREST, _ALIKE)
    if near:
        return f"{none}; nearest: {', '.join(near)}"
    if known:
        return f"{none}; most have: {', '.join(list(known)[:_NEAREST])}"
    return f"{none}, nor any other: group by {', '.join(LABELS)}"


def _summary(found: Summary, requests: int) -> SummaryDocument:
    return document(SummaryDocument, found, share_ratio=found.requests / requests)
