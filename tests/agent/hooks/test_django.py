"""The hook of Django, within the requests of a server."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import SpanKind

from latencytrace.agent.hooks.web_routes import DjangoHook
from latencytrace.agent.hooks.wsgi import WsgiHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.servers.serving import get, serving_waitress

pytest.importorskip("waitress.server")
conf = pytest.importorskip("django.conf")
http = pytest.importorskip("django.http")
urls = pytest.importorskip("django.urls")
wsgi = pytest.importorskip("django.core.wsgi")


def shown(_: object, item: int) -> Any:
    return http.HttpResponse(f"item {item}")


urlpatterns = [urls.path("items/<int:item>/", shown)]


@pytest.fixture(scope="module")
def application() -> Iterator[Any]:
    conf.settings.configure(
        ROOT_URLCONF=tuple(urlpatterns),
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="of a test",
        LOGGING_CONFIG=None,
    )
    yield wsgi.get_wsgi_application()
    conf.settings._wrapped = conf.empty


@pytest.fixture
def spans() -> Iterator[Spans]:
    with hooked(WsgiHook, DjangoHook) as spans:
        yield spans


def test_a_request_is_named_after_its_route(spans: Spans, application: Any) -> None:
    with serving_waitress(application) as url:
        assert get(f"{url}/items/7/").text == "item 7"

    spans.wait_for(1)
    assert (spans.only.name, spans.only.kind) == ("GET /items/<int:item>/", SpanKind.SERVER)
    assert spans.only.attributes[semconv.HTTP_ROUTE] == "/items/<int:item>/"
    assert spans.only.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200


def test_one_that_matches_no_route_has_none(spans: Spans, application: Any) -> None:
    with serving_waitress(application) as url:
        assert get(f"{url}/nowhere").status == 404

    spans.wait_for(1)
    assert spans.only.name == "GET"
    assert semconv.HTTP_ROUTE not in spans.only.attributes
