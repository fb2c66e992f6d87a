"""The questions of views about a cohort: what they ask for beside its filters and its time."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

from pydantic import Field, model_validator

from latencytrace.analysis.capacity.limits import Limit, limits_of
from latencytrace.errors import QuestionError
from latencytrace.model import Measure, Objective
from latencytrace.model.texts.durations import written_duration_ns
from latencytrace.service.cohort import CohortQuery
from latencytrace.service.store import Order, TableFormat

CAME: Final = "came"  # marks the second try of a link from elsewhere; no question


class BreakdownQuery(CohortQuery, defer_build=False):
    """A whole cohort."""

    @model_validator(mode="before")
    @classmethod
    def refuse_unknown(cls, given: object) -> object:
        """Refuse a misspelt parameter, which would find more than was asked for.

        Raises:
            QuestionError: There is none of this name; the message says which there are.
        """
        for name in given if isinstance(given, Mapping) else ():
            if name not in cls.model_fields:
                known = ", ".join(cls.model_fields)
                raise QuestionError(f"{name!r} is no parameter here: use {known}")
        return given


class RequestsQuery(BreakdownQuery):
    """Some requests of a cohort."""

    order: Annotated[Order, Field(description="slowest or newest first")] = Order.SLOWEST
    limit: Annotated[int, Field(ge=1, le=10_000)] = 20


class TailQuery(BreakdownQuery):
    """The tail of a cohort."""

    quantile: Annotated[
        float, Field(ge=0.75, le=0.9999, description="of the duration, where the tail begins")
    ] = 0.99


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
