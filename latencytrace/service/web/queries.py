"""The questions of views about a cohort: what they ask for beside its filters and its time."""

from typing import Annotated

from pydantic import Field

from latencytrace.service.cohort import CohortQuery
from latencytrace.service.store import Order, TableFormat


class RequestsQuery(CohortQuery):
    """Some requests of a cohort."""

    order: Order = Order.SLOWEST
    """slowest or newest first"""
    limit: Annotated[int, Field(ge=1, le=10_000)] = 20


class LedgersQuery(CohortQuery):
    """The ledgers of a cohort."""

    format: TableFormat = TableFormat.CSV
    """csv or parquet"""
