"""`GET /api/v1/gpu`, and the GPUs over time."""

from collections.abc import Callable

from fastapi import APIRouter
from fastapi.responses import Response

from latencytrace.service.answers.gpu_documents import GpusDocument, GpuTimelinesDocument
from latencytrace.service.net.problems import JsonAnswer
from latencytrace.service.web.queries import NO_PARAMETERS


def gpu_router(
    gpus: Callable[[], GpusDocument], timelines: Callable[[], GpuTimelinesDocument]
) -> APIRouter:
    """The GPUs that agents read."""
    router = APIRouter(tags=["gpu"], dependencies=NO_PARAMETERS)

    @router.get("/gpu", response_model=GpusDocument)
    def gpu() -> Response:
        """GPUs as they were read last, and what held the work on them up in the last hour."""
        return JsonAnswer(gpus())

    @router.get("/gpu/timeline", response_model=GpuTimelinesDocument)
    def timeline() -> Response:
        """The counters of GPUs over the last hour, beside the device time of traced work."""
        return JsonAnswer(timelines())

    return router
