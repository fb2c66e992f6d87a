"""`GET /api/v1/steps/{span_id}`."""

from fastapi import APIRouter
from fastapi.responses import Response

from latencytrace.service.answers import steps
from latencytrace.service.answers.documents import StepDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import NO_PARAMETERS


def steps_router(store: Store) -> APIRouter:
    """Batches and decode steps that served many requests at once."""
    router = APIRouter(tags=["steps"], dependencies=NO_PARAMETERS)

    @router.get("/steps/{span_id}", response_model=StepDocument)
    def step(span_id: str) -> Response:
        """A shared step with its members, and an estimate of each one's share."""
        return JsonAnswer(steps.step(store, span_id))

    return router
