"""`GET /api/v1/gpu`."""

from fastapi import APIRouter
from fastapi.responses import Response

from latencytrace.service.answers import gpu_answers
from latencytrace.service.answers.gpu_documents import GpusDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.reports.device_works import DeviceWorks
from latencytrace.service.reports.gpus import GpuReports


def gpu_router(reports: GpuReports, works: DeviceWorks) -> APIRouter:
    """The GPUs that agents read."""
    router = APIRouter(tags=["gpu"])

    @router.get("/gpu", response_model=GpusDocument)
    def gpu() -> Response:
        """GPUs as they were read last, and what held the work on them up in the last hour."""
        return JsonAnswer(gpu_answers.gpus(reports, works))

    return router
