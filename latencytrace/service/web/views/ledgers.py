"""`GET /api/v1/ledgers`."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from latencytrace.service.answers import requests as answers
from latencytrace.service.store import Store, TableFormat
from latencytrace.service.web.queries import LedgersQuery

MEDIA_TYPES = {
    TableFormat.CSV: "text/csv; charset=utf-8; header=present",
    TableFormat.PARQUET: "application/vnd.apache.parquet",
}


def ledgers_router(store: Store, now_ns: Callable[[], int]) -> APIRouter:
    """The ledgers of a cohort as a table for other programs."""
    router = APIRouter(tags=["ledgers"])

    @router.get("/ledgers", response_class=Response)
    def ledgers(asked: Annotated[LedgersQuery, Query()]) -> Response:
        """A row for each request, a column for each stage, in nanoseconds."""
        body = answers.ledgers(store, asked.cohort(now_ns()), asked.format)
        return Response(body, media_type=MEDIA_TYPES[asked.format])

    return router
