"""`GET /api/v1/tail`."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from latencytrace.model.cohorts.request_columns import Beside
from latencytrace.service.answers import tail as answers
from latencytrace.service.answers.tail_documents import TailDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import TailQuery


def tail_router(store: Store, now_ns: Callable[[], int], beside: Beside) -> APIRouter:
    """The slowest requests of a cohort against its usual ones."""
    router = APIRouter(tags=["tail"])

    @router.get("/tail", response_model=TailDocument)
    def tail(asked: Annotated[TailQuery, Query()]) -> Response:
        """The stages and attributes of the slowest requests against those around the median."""
        at_ns = now_ns()
        cohort = asked.cohort(at_ns)
        selection = asked.selection(cohort, at_ns)
        if selection is None:
            return JsonAnswer(answers.tail(store, cohort, asked.quantile, beside))
        return JsonAnswer(answers.tail_of_selected(store, cohort, selection, beside))

    return router
