"""The questions of views about a cohort: what they ask for beside its filters and its time."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Final

from fastapi import Depends, Query, Request
from pydantic import BaseModel, Field, model_validator

from latencytrace.analysis.capacity.limits import Limit, limits_of
from latencytrace.analysis.tail.groups import Selection
from latencytrace.errors import QuestionError
from latencytrace.model import Measure, Objective
from latencytrace.model.texts.units import written_duration_ns
from latencytrace.service.answers.groups import GROUPS, MOST_GROUPS
from latencytrace.service.answers.overview_documents import MOST_ROUTES, ROUTES
from latencytrace.service.cohort import (
    LONGEST_NS,
    REPEATED,
    Cohort,
    CohortQuery,
    duration_range,
    instant_ns,
)
from latencytrace.service.store import Order, TableFormat

CAME: Final = "came"  # marks the second try of a link from elsewhere; no question


def refuse_misspelt(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse a misspelt parameter, which would find more than was asked for.

    Raises:
        QuestionError: There is none of this name; the message says which there are.
    """
    for name in given:
        if name not in (*known, CAME):
            use = f"use {', '.join(known)}" if known else "there is none"
            raise QuestionError(f"{name!r} is no parameter here: {use}")


async def refuse_twice(request: Request) -> None:
    """Refuse a parameter that is given twice, of which one would not count.

    Raises:
        QuestionError: A parameter that may not be repeated is.
    """
    counts = Counter(name for name, _ in request.query_params.multi_items())
    for name, count in counts.items():
        if count > 1 and name not in REPEATED:
            raise QuestionError(f"{name} is given {count} times: name it once")


class KnownQuery(BaseModel):
    """Parameters of an address, and no others."""

    @model_validator(mode="before")
    @classmethod
    def refuse_unknown(cls, given: object) -> object:
        refuse_misspelt(given if isinstance(given, Mapping) else (), cls.model_fields)
        return given


async def _nothing(_: Annotated[KnownQuery, Query()]) -> None:
    """Take no parameters."""


NO_PARAMETERS: Final = (Depends(_nothing),)  # of addresses that know none


class BreakdownQuery(CohortQuery, KnownQuery, defer_build=False):
    """A whole cohort."""


class OverviewQuery(BreakdownQuery):
    """Some routes of a cohort."""

    limit: Annotated[
        int, Field(ge=1, le=MOST_ROUTES, description="of routes, those first that took most time")
    ] = ROUTES


class RoutesQuery(BreakdownQuery):
    """Some routes of a cohort, each by itself."""

    limit: Annotated[
        int, Field(ge=1, le=10_000, description="of routes, those first that took most time")
    ] = 20


class GroupsQuery(BreakdownQuery):
    """A cohort by a label or an attribute."""

    by: Annotated[
        str, Field(description="service, route, model, version, instance, status or an attribute")
    ]
    limit: Annotated[
        int, Field(ge=1, le=MOST_GROUPS, description="of values, those first that took most time")
    ] = GROUPS


class RequestsQuery(BreakdownQuery):
    """Some requests of a cohort."""

    order: Annotated[Order, Field(description="slowest or newest first")] = Order.SLOWEST
    limit: Annotated[int, Field(ge=1, le=10_000)] = 20


class TraceIdsQuery(BreakdownQuery):
    """The traces whose id begins so, of requests of a cohort."""

    beginning: Annotated[
        str, Field(pattern="^[0-9a-fA-F]{1,32}$", description="of the trace id, in hex digits")
    ]
    limit: Annotated[int, Field(ge=1, le=10_000)] = 20


class TailQuery(BreakdownQuery):
    """The tail of a cohort."""

    quantile: Annotated[
        float, Field(ge=0.75, le=0.9999, description="of the duration, where the tail begins")
    ] = 0.99
    selected: Annotated[
        str | None,
        Field(description="in place of a quantile: the tail are those that took so long, 2s..8s"),
    ] = None
    selected_since: Annotated[
        str | None, Field(description="and of these those that began from then on")
    ] = None
    selected_until: Annotated[str | None, Field(description="and before then")] = None

    def selection(self, cohort: Cohort, now_ns: int) -> Selection | None:
        """Return the requests of a cohort that are the tail; None: those beyond the quantile.

        Raises:
            QuestionError: A range or a time cannot be read.
        """
        if self.selected is None:
            if self.selected_since or self.selected_until:
                raise QuestionError("selected_since and selected_until need selected=2s..8s")
            return None
        took = duration_range(self.selected)
        since, until = self.selected_since, self.selected_until
        ranges = [one for one in (took, cohort.duration) if one is not None]
        ends = [one.at_most_ns for one in ranges if one.at_most_ns is not None]
        untils = [instant_ns(until, now_ns)] if until else []
        untils += [] if cohort.until_ns is None else [cohort.until_ns]
        return Selection(
            at_least_ns=max(one.at_least_ns or 0 for one in ranges),
            at_most_ns=min(ends, default=LONGEST_NS),
            since_ns=max(instant_ns(since, now_ns) if since else 0, cohort.since_ns or 0),
            until_ns=min(untils, default=LONGEST_NS),
        )


class LedgersQuery(BreakdownQuery):
    """The ledgers of a cohort."""

    format: Annotated[TableFormat, Field(description="csv or parquet")] = TableFormat.CSV


class CapacityQuery(BreakdownQuery):
    """A cohort, and the limits that its requests shall meet."""

    within: Annotated[
        str | None, Field(description="how long requests may take: 2s; else as objectives say")
    ] = None
    first_token_within: Annotated[
        str | None, Field(description="how long their first token may take: 500ms")
    ] = None
    per_token_within: Annotated[
        str | None, Field(description="how long each further token may take: 50ms")
    ] = None

    rate: Annotated[
        float | None,
        Field(
            gt=0,
            le=1e9,
            description="requests a second that replicas are wanted for; else those seen",
        ),
    ] = None

    def limits(self, objectives: Iterable[Objective]) -> tuple[Limit, ...]:
        """Return the limits that are named, else those of objectives.

        Raises:
            QuestionError: One is no duration.
        """
        named = {
            Measure.DURATION: self.within,
            Measure.TIME_TO_FIRST_TOKEN: self.first_token_within,
            Measure.TIME_PER_OUTPUT_TOKEN: self.per_token_within,
        }
        found = [
            Limit(measure=measure, at_most_ns=_limit_ns(text))
            for measure, text in named.items()
            if text
        ]
        return tuple(found) or limits_of(objectives)


def _limit_ns(text: str) -> int:
    found_ns = written_duration_ns(text)
    if found_ns is None:
        raise QuestionError(f"{text!r} is no duration: write 2s or 250ms")
    return found_ns
