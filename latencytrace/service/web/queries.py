"""The questions of views about a cohort: what they ask for beside its filters and its time."""

from typing import Annotated

from pydantic import Field

from latencytrace.service.cohort import CohortQuery
from latencytrace.service.store import Order, TableFormat


class BreakdownQuery(CohortQuery, defer_build=False):
    """A whole cohort."""


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
