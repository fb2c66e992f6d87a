"""`/healthz`, `/readyz` and `/metrics`."""

from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client.exposition import choose_encoder

from latencytrace.service.metrics.telemetry import Telemetry


def health_router(telemetry: Telemetry, unready: Callable[[], str | None]) -> APIRouter:
    """Whether the service lives, whether it takes spans, and what it counts.

    Args:
        telemetry: Its metrics.
        unready: Why it is not ready; None: it is.
    """
    router = APIRouter(tags=["operation"])

    @router.get("/healthz", response_class=PlainTextResponse)
    async def healthz() -> str:
        """Whether the process answers."""
        return "ok\n"

    @router.get("/readyz", response_class=PlainTextResponse)
    async def readyz() -> Response:
        """Whether spans are received, stored and divided."""
        reason = unready()
        return PlainTextResponse(f"{reason or 'ok'}\n", 503 if reason else 200)

    @router.get("/metrics", response_class=PlainTextResponse)
    def metrics(request: Request) -> Response:
        """Prometheus metrics; exemplars where OpenMetrics is accepted."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(telemetry.registry), media_type=content_type)

    return router
