"""The hook of Falcon, within the requests of a WSGI and of an ASGI server."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import SpanKind

from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.web_routes import FalconHook
from latencytrace.agent.hooks.wsgi import WsgiHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.servers.serving import get, serving, serving_waitress

pytest.importorskip("waitress.server")
falcon = pytest.importorskip("falcon")
falcon_asgi = pytest.importorskip("falcon.asgi")


class Item:
    """A resource as programs have them."""

    def on_get(self, _: object, response: Any, item: int) -> None:
        """Answer."""
        response.text = f"item {item}"


class AsyncItem:
    """The same for ASGI."""

    async def on_get(self, _: object, response: Any, item: int) -> None:
        """Answer."""
        response.text = f"item {item}"


@pytest.fixture
def spans() -> Iterator[Spans]:
    with hooked(WsgiHook, AsgiHook, FalconHook) as spans:
        yield spans


def test_a_request_over_wsgi_is_named_after_its_route(spans: Spans) -> None:
    application = falcon.App()
    application.add_route("/items/{item:int}", Item())

    with serving_waitress(application) as url:
        assert get(f"{url}/items/7").text == "item 7"
        assert get(f"{url}/nowhere").status == 404

    spans.wait_for(2)
    # One may have waited for the worker that served the other, which has a span of its own.
    served = [span for span in spans.all if span.kind is SpanKind.SERVER]
    routes = {span.name: span.attributes.get(semconv.HTTP_ROUTE) for span in served}
    assert routes == {"GET /items/{item:int}": "/items/{item:int}", "GET": None}


def test_a_request_over_asgi_is_too(spans: Spans) -> None:
    application = falcon_asgi.App()
    application.add_route("/items/{item:int}", AsyncItem())

    with serving(application) as url:
        assert get(f"{url}/items/7").text == "item 7"

    spans.wait_for(1)
    assert spans.names == ["GET /items/{item:int}"]
