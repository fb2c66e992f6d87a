"""`GET /api/v1/requests`, `/requests/{trace_id}`, `/traces`, `/ledgers` and `/steps/{span_id}`."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import orjson
from fastapi import Query
from fastapi.responses import Response
from pydantic import Field

from latencytrace.service.answers import requests as answers
from latencytrace.service.answers import steps
from latencytrace.service.answers.documents import (
    RequestDocument,
    RequestsDocument,
    StepDocument,
    TraceIdsDocument,
)
from latencytrace.service.answers.traces.perfetto import perfetto_trace
from latencytrace.service.net.problems import JsonAnswer
from latencytrace.service.store import Store, TableFormat
from latencytrace.service.web.described import ViewRouter
from latencytrace.service.web.queries import (
    NO_PARAMETERS,
    KnownQuery,
    LedgersQuery,
    RequestsQuery,
    TraceIdsQuery,
)


class RequestFormat(StrEnum):
    """The forms in which a request is answered."""

    JSON = "json"
    PERFETTO = "perfetto"


class RequestQuery(KnownQuery):
    """One request of a trace."""

    span_id: Annotated[str | None, Field(description="of an inner request")] = None
    format: Annotated[
        RequestFormat, Field(description="json, or perfetto: a trace of Chrome's format")
    ] = RequestFormat.JSON


def requests_router(
    store: Store,
    now_ns: Callable[[], int],
    open_because: Callable[[str], str | None],
    profiles_of: Callable[[str], list[str]],
) -> ViewRouter:
    """Requests of a cohort, and one with its spans."""
    router = ViewRouter(tags=["requests"])

    @router.get("/requests", response_model=RequestsDocument)
    def requests(asked: Annotated[RequestsQuery, Query()]) -> Response:
        """Requests of a cohort with their ledgers and segments, without spans."""
        cohort = asked.cohort(now_ns())
        return JsonAnswer(answers.requests(store, cohort, asked.order, asked.limit))

    @router.get("/traces", response_model=TraceIdsDocument)
    def trace_ids(asked: Annotated[TraceIdsQuery, Query()]) -> Response:
        """The traces whose id begins so, of requests of a cohort, in order of id."""
        cohort = asked.cohort(now_ns())
        return JsonAnswer(answers.trace_ids(store, cohort, asked.beginning, asked.limit))

    @router.get("/requests/{trace_id}", response_model=RequestDocument)
    def request(trace_id: str, asked: Annotated[RequestQuery, Query()]) -> Response:
        """The outermost request of a trace, or an inner one, with its spans."""
        found = answers.request(store, trace_id, asked.span_id, open_because, profiles_of)
        if asked.format is RequestFormat.JSON:
            return JsonAnswer(found)
        saved = {"content-disposition": f'attachment; filename="{found["trace_id"]}.json"'}
        return Response(orjson.dumps(perfetto_trace(found)), 200, saved, "application/json")

    return router


MEDIA_TYPES = {
    TableFormat.CSV: "text/csv; charset=utf-8; header=present",
    TableFormat.PARQUET: "application/vnd.apache.parquet",
}


def ledgers_router(store: Store, now_ns: Callable[[], int]) -> ViewRouter:
    """The ledgers of a cohort as a table for other programs."""
    router = ViewRouter(tags=["ledgers"])

    @router.get("/ledgers", response_class=Response)
    def ledgers(asked: Annotated[LedgersQuery, Query()]) -> Response:
        """A row for each request, a column for each stage, in nanoseconds."""
        body = answers.ledgers(store, asked.cohort(now_ns()), asked.format)
        return Response(body, media_type=MEDIA_TYPES[asked.format])

    return router


def steps_router(store: Store) -> ViewRouter:
    """Batches and decode steps that served many requests at once."""
    router = ViewRouter(tags=["steps"], dependencies=NO_PARAMETERS)

    @router.get("/steps/{span_id}", response_model=StepDocument)
    def step(span_id: str) -> Response:
        """A shared step with its members, and an estimate of each one's share."""
        return JsonAnswer(steps.step(store, span_id))

    return router
