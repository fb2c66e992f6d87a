"""`GET /api/v1/capacity`."""

from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from latencytrace.model import Objective
from latencytrace.service.answers.load import capacity as answers
from latencytrace.service.answers.load.capacity_documents import CapacityDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import CapacityQuery


def capacity_router(
    store: Store, now_ns: Callable[[], int], objectives: Callable[[], Sequence[Objective]]
) -> APIRouter:
    """Latency against load."""
    router = APIRouter(tags=["capacity"])

    @router.get("/capacity", response_model=CapacityDocument)
    def capacity(asked: Annotated[CapacityQuery, Query()]) -> Response:
        """Rates and durations by how many requests are under way, the knee, and the goodput.

        Without a limit, requests shall meet the objectives that are watched.
        """
        limits = asked.limits(objectives())
        at_ns = now_ns()
        cohort = asked.cohort(at_ns)
        return JsonAnswer(answers.capacity_of(store, cohort, limits, at_ns, asked.rate))

    return router
