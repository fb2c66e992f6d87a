"""The hook of Quart, under the server that it brings."""

from collections.abc import Iterator

import pytest

from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.web_routes import QuartHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.servers.serving import get, serving_hypercorn

quart = pytest.importorskip("quart")
pytest.importorskip("hypercorn.app_wrappers")


@pytest.fixture
def spans() -> Iterator[Spans]:
    with hooked(AsgiHook, QuartHook) as spans:
        yield spans


def test_a_request_is_named_after_its_route(spans: Spans) -> None:
    application = quart.Quart("shop")

    async def shown(item: int) -> str:
        return f"item {item}"

    application.add_url_rule("/items/<int:item>", view_func=shown)

    with serving_hypercorn(application) as url:
        assert get(f"{url}/items/7").text == "item 7"
        assert get(f"{url}/nowhere").status == 404

    spans.wait_for(2)
    routes = {span.name: span.attributes.get(semconv.HTTP_ROUTE) for span in spans.all}
    assert routes == {"GET /items/<int:item>": "/items/<int:item>", "GET": None}
    statuses = {span.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] for span in spans.all}
    assert statuses == {200, 404}
