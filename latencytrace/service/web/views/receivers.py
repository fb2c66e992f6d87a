"""`GET /api/v1/receivers`."""

from ipaddress import ip_address

from fastapi import APIRouter, Request
from fastapi.responses import Response

from latencytrace.service.answers.documents import ReceiversDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.web.queries import NO_PARAMETERS


def receivers_router(host: str, port: int) -> APIRouter:
    """The address at which this service receives spans.

    Args:
        host: The address of the receiver of OTLP over HTTP.
        port: Port of the receiver.
    """
    router = APIRouter(tags=["receivers"], dependencies=NO_PARAMETERS)

    @router.get("/receivers", response_model=ReceiversDocument)
    async def receivers(request: Request) -> Response:
        """The address of the receiver, as the caller can reach it."""
        listens_everywhere = ip_address(host).is_unspecified
        reached = (request.url.hostname or host) if listens_everywhere else host
        name = f"[{reached}]" if ":" in reached else reached
        return JsonAnswer({"otlp_http": f"http://{name}:{port}"})

    return router
