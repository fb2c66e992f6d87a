"""The questions of views about a cohort: what they ask for beside its filters and its time."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field, model_validator

from latencytrace.errors import QuestionError
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
