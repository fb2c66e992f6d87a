"""The hook of Django, within the requests of a server."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from opentelemetry.trace import SpanKind

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks.web_routes import DjangoHook
from latencytrace.agent.hooks.wsgi import WsgiHook, time_application
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.waiting_requests import let_time_pass
from tests.support.servers.serving import get, serving_waitress, serving_wsgi

pytest.importorskip("waitress.server")
conf = pytest.importorskip("django.conf")
http = pytest.importorskip("django.http")
urls = pytest.importorskip("django.urls")
wsgi = pytest.importorskip("django.core.wsgi")


def shown(_: object, item: int) -> Any:
    return http.HttpResponse(f"item {item}")


def slow(_: object, item: int) -> Any:
    let_time_pass()
    return http.HttpResponse(f"item {item}")


urlpatterns = [urls.path("items/<int:item>/", shown), urls.path("slow/<int:item>/", slow)]


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


def test_a_request_that_held_its_worker_is_named_after_its_route(
    spans: Spans, application: Any
) -> None:
    timed = time_application(spans.recorder, lambda _, *given: application(*given))
    environ: dict[str, Any] = {"PATH_INFO": "/slow/7/"}
    setup_testing_defaults(environ)
    came_ns = monotonic_ns()

    timed(None, environ, lambda *_: print).close()

    held = spans.recorder.open_requests.holds.wait(came_ns, monotonic_ns())
    assert held is not None
    assert held.by == spans.only.name == "GET /slow/<int:item>/"


@pytest.mark.parametrize("serve", [serving_waitress, serving_wsgi])  # whose hook it has, or not
def test_a_request_is_named_after_its_route(
    spans: Spans, application: Any, serve: Callable[[Any], AbstractContextManager[str]]
) -> None:
    with serve(application) as url:
        assert get(f"{url}/items/7/").text == "item 7"

    spans.wait_for(1)
    assert (spans.only.name, spans.only.kind) == ("GET /items/<int:item>/", SpanKind.SERVER)
    assert spans.only.attributes[semconv.HTTP_ROUTE] == "/items/<int:item>/"
    assert spans.only.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200


def test_what_the_application_returns_answers_as_its_response(
    spans: Spans, application: Any
) -> None:
    environ: dict[str, Any] = {"PATH_INFO": "/items/7/"}
    setup_testing_defaults(environ)

    response = application(environ, lambda *_: print)
    assert (response.status_code, b"".join(response)) == (200, b"item 7")
    response.close()

    assert spans.only.name == "GET /items/<int:item>/"


def test_one_that_matches_no_route_has_none(spans: Spans, application: Any) -> None:
    with serving_waitress(application) as url:
        assert get(f"{url}/nowhere").status == 404

    spans.wait_for(1)
    assert spans.only.name == "GET"
    assert semconv.HTTP_ROUTE not in spans.only.attributes
