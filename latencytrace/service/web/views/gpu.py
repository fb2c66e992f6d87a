"""`GET /api/v1/gpu`."""

from collections.abc import Callable

from fastapi import APIRouter
from fastapi.responses import Response

from latencytrace.service.answers.gpu_documents import GpusDocument
from latencytrace.service.net.json_answer import JsonAnswer


def gpu_router(gpus: Callable[[], GpusDocument]) -> APIRouter:
    """The GPUs that agents read."""
    router = APIRouter(tags=["gpu"])

    @router.get("/gpu", response_model=GpusDocument)
    def gpu() -> Response:
        """GPUs as they were read last, and what held the work on them up in the last hour."""
        return JsonAnswer(gpus())

    return router
