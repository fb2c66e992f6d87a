"""Frameworks that any server may serve: Bottle and Pyramid."""

import importlib
from typing import Any

import pytest

from latencytrace.agent.hooks.wsgi import WsgiHook
from tests.support.agent.hooked import hooked
from tests.support.servers.serving import get, serving_wsgi


def bottle(library: Any) -> Any:
    application = library.Bottle()
    application.route("/items/<item:int>", callback=lambda item: f"item {item}")
    return application


def pyramid(library: Any) -> Any:
    response = importlib.import_module("pyramid.response").Response
    with importlib.import_module("pyramid.config").Configurator() as configurator:
        configurator.add_route("items", "/items/{item}")
        configurator.add_view(
            lambda request: response(f"item {request.matchdict['item']}"), route_name="items"
        )
        return configurator.make_wsgi_app()


@pytest.mark.filterwarnings("ignore")  # both import what newer Pythons lack
@pytest.mark.parametrize("make", [bottle, pyramid])
def test_a_request_is_timed_below_a_server_that_has_no_hook(make: Any) -> None:
    library = pytest.importorskip(make.__name__)

    with hooked(WsgiHook) as spans, serving_wsgi(make(library)) as url:
        assert get(f"{url}/items/7").text == "item 7"
        spans.wait_for(1)

    assert spans.only.name in {"GET /items/{id}", "GET"}
