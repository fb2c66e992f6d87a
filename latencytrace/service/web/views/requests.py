"""`GET /api/v1/requests` and `/requests/{trace_id}`."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.documents import RequestDocument, RequestsDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import RequestsQuery


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
    ) -> Response:
        """The outermost request of a trace, or an inner one, with its spans."""
        return JsonAnswer(answers.request(store, trace_id, span_id, is_open, profiles_of))

    return router
