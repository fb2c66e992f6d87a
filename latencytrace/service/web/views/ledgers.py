"""`GET /api/v1/ledgers`."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.cohort_query import cohort_query
from latencytrace.service.store import Store, TableFormat

MEDIA_TYPES = {
    TableFormat.CSV: "text/csv; charset=utf-8; header=present",
    TableFormat.PARQUET: "application/vnd.apache.parquet",
}


def ledgers_router(store: Store, now_ns: Callable[[], int]) -> APIRouter:
    """The ledgers of a cohort as a table for other programs."""
    router = APIRouter(tags=["ledgers"])

    @router.get("/ledgers", response_class=Response)
    def ledgers(
        cohort: Annotated[dict[str, str | None], Depends(cohort_query)],
        table_format: Annotated[
            TableFormat, Query(alias="format", description="csv or parquet")
        ] = TableFormat.CSV,
    ) -> Response:
        """A row for each request, a column for each stage, in nanoseconds."""
        body = answers.ledgers(store, answers.cohort_of(cohort, now_ns()), table_format)
        return Response(body, media_type=MEDIA_TYPES[table_format])

    return router
