"""`/healthz`, `/readyz` and `/metrics`."""

from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from latencytrace.service.metrics.exposition import scrape
from latencytrace.service.metrics.telemetry import Telemetry


def health_router(telemetry: Telemetry, unready: Callable[[], str | None]) -> APIRouter:
    """Liveness, readiness and the metrics of the service.

    Args:
        telemetry: The service's own metrics.
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
        """Prometheus metrics: exemplars as OpenMetrics, native histograms as protobuf."""
        headers = request.headers
        asked = headers.get("accept", ""), headers.get("accept-encoding", "")
        body, media_type, is_packed = scrape(telemetry.registry, *asked)
        packed = {"content-encoding": "gzip"} if is_packed else {}
        return Response(
            body, headers={"vary": "accept, accept-encoding", **packed}, media_type=media_type
        )

    return router
