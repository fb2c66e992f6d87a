"""`GET /api/v1/requests`, `/requests/{trace_id}` and `/traces`."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field

from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.documents import (
    RequestDocument,
    RequestsDocument,
    TraceIdsDocument,
)
from latencytrace.service.answers.traces.perfetto import perfetto_trace
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import KnownQuery, RequestsQuery, TraceIdsQuery


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
    is_open: Callable[[str], bool],
    profiles_of: Callable[[str], list[str]],
) -> APIRouter:
    """Requests of a cohort, and one with its spans."""
    router = APIRouter(tags=["requests"])

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
        found = answers.request(store, trace_id, asked.span_id, is_open, profiles_of)
        if asked.format is RequestFormat.JSON:
            return JsonAnswer(found)
        saved = {"content-disposition": f'attachment; filename="{found["trace_id"]}.json"'}
        return Response(orjson.dumps(perfetto_trace(found)), 200, saved, "application/json")

    return router
