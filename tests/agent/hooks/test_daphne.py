"""Daphne, the ASGI server of Django's channels: `latencytrace run`."""

import sys
from pathlib import Path

import pytest
from opentelemetry.trace import SpanKind

from latencytrace.model import Stage, semconv
from tests.support.agent.receiving import ReceivedSpan, Receiver
from tests.support.servers.traced_server import traced_server

pytest.importorskip("daphne")

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
DJANGO = """
from django.conf import settings

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="none")
from django.core.asgi import get_asgi_application
from django.http import HttpResponse
from django.urls import path

async def item(request, number):
    return HttpResponse("it")

def broken(request):
    raise AssertionError("a secret")

urlpatterns = [path("items/<int:number>/", item), path("broken/", broken)]
app = get_asgi_application()
"""


def test_a_request_is_one_server_span_in_the_trace_of_its_caller(tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(DJANGO)
    command = sys.executable, "-m", "daphne", "-p", "PORT", "served:app"

    with (
        Receiver() as receiver,
        traced_server(receiver, tmp_path, *command, ready="/items/1/") as server,
    ):
        answer = server.client.get("/items/2/", headers={"traceparent": PARENT})
        broken = server.client.get("/broken/")

        def at(path: str) -> list[ReceivedSpan]:
            return [one for one in receiver.spans if one.attributes.get(semconv.URL_PATH) == path]

        server.wait_until(lambda: bool(at("/items/2/") and at("/broken/")))

    assert (answer.text, broken.status_code) == ("it", 500)
    (request,), (failed,) = at("/items/2/"), at("/broken/")
    assert request.trace_id == TRACE
    assert request.kind is failed.kind is SpanKind.SERVER
    assert request.name == "GET /items/<int:number>/"
    assert request.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
    assert failed.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 500
    assert {one.stage for one in receiver.spans if one.parent_id == request.span_id} <= {
        Stage.RESPOND
    }
