"""`GET /api/v1/services`."""

from fastapi import APIRouter
from fastapi.responses import Response

from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.documents import ServicesDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import NO_PARAMETERS


def services_router(store: Store) -> APIRouter:
    """The services that have requests, and their routes."""
    router = APIRouter(tags=["services"], dependencies=NO_PARAMETERS)

    @router.get("/services", response_model=ServicesDocument)
    def services() -> Response:
        """The services that have requests, and their routes."""
        return JsonAnswer(answers.services(store))

    return router
