"""`/healthz`, `/readyz` and `/metrics`."""

from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client.exposition import choose_encoder

from latencytrace.service.metrics.telemetry import Telemetry


def health_router(telemetry: Telemetry, unready: Callable[[], str | None]) -> APIRouter:
    """Liveness, readiness and the metrics of the service.

    Args:
        telemetry: Its metrics.
        unready: The reason why it is not ready; None: it is.
    """
    router = APIRouter(tags=["operation"])

    @router.get("/healthz", response_class=PlainTextResponse)
    async def healthz() -> str:
        """Answer, as long as the process lives."""
        return "ok\n"

    @router.get("/readyz", response_class=PlainTextResponse)
    async def readyz() -> Response:
        """Say whether spans are received, stored and attributed."""
        reason = unready()
        return PlainTextResponse(f"{reason or 'ok'}\n", 503 if reason else 200)

    @router.get("/metrics", response_class=PlainTextResponse)
    def metrics(request: Request) -> Response:
        """Prometheus metrics; exemplars where OpenMetrics is accepted."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(telemetry.registry), media_type=content_type)

    return router
