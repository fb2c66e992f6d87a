"""`/healthz`, `/readyz`, `/metrics` and `GET /api/v1/receivers`."""

from collections.abc import Callable
from ipaddress import ip_address

from fastapi import Request
from fastapi.responses import PlainTextResponse, Response

from latencytrace.service.answers.documents import ReceiversDocument
from latencytrace.service.metrics.exposition import scrape
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.net.problems import JsonAnswer
from latencytrace.service.web.described import ViewRouter
from latencytrace.service.web.queries import NO_PARAMETERS


def health_router(telemetry: Telemetry, unready: Callable[[], str | None]) -> ViewRouter:
    """Liveness, readiness and the metrics of the service.

    Args:
        unready: The reason why it is not ready; None: it is.
    """
    router = ViewRouter(tags=["operation"])

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


def receivers_router(host: str, port: int) -> ViewRouter:
    """The address at which this service receives spans.

    Args:
        host: The address of the receiver of OTLP over HTTP.
    """
    router = ViewRouter(tags=["receivers"], dependencies=NO_PARAMETERS)

    @router.get("/receivers", response_model=ReceiversDocument)
    async def receivers(request: Request) -> Response:
        """The address of the receiver, as the caller can reach it."""
        listens_everywhere = ip_address(host).is_unspecified
        reached = (request.url.hostname or host) if listens_everywhere else host
        name = f"[{reached}]" if ":" in reached else reached
        return JsonAnswer({"otlp_http": f"http://{name}:{port}"})

    return router
