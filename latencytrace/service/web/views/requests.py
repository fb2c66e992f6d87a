"""`GET /api/v1/requests` and `/requests/{trace_id}`."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response

from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.documents import RequestDocument, RequestsDocument
from latencytrace.service.answers.traces.perfetto import perfetto_trace
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import RequestsQuery


class RequestFormat(StrEnum):
    """The forms in which a request is answered."""

    JSON = "json"
    PERFETTO = "perfetto"


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

    @router.get("/requests/{trace_id}", response_model=RequestDocument)
    def request(
        trace_id: str,
        span_id: Annotated[str | None, Query(description="of an inner request")] = None,
        format: Annotated[  # noqa: A002 - as an address names it
            RequestFormat, Query(description="json, or perfetto: a trace of Chrome's format")
        ] = RequestFormat.JSON,
    ) -> Response:
        """The outermost request of a trace, or an inner one, with its spans."""
        found = answers.request(store, trace_id, span_id, is_open, profiles_of)
        if format is RequestFormat.JSON:
            return JsonAnswer(found)
        saved = {"content-disposition": f'attachment; filename="{found["trace_id"]}.json"'}
        return Response(orjson.dumps(perfetto_trace(found)), 200, saved, "application/json")

    return router
