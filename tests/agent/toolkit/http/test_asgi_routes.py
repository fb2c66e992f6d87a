"""A route is a template, whatever mounts, routers, hosts and applications lead to it."""

import asyncio
from collections.abc import Iterable

import httpx
from hypothesis import given

from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.wsgi import WsgiHook
from latencytrace.model import semconv
from tests.support.agent.hooked import hooked
from tests.support.builders.route_trees import HOST, Tree, route_trees


def routes_of(tree: Tree, paths: Iterable[str]) -> dict[str, object]:
    """The routes of requests for some paths."""

    async def ask() -> None:
        transport = httpx.ASGITransport(tree.application)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            for path in paths:
                await client.get(path)

    with hooked(AsgiHook, WsgiHook) as spans:
        asyncio.run(ask())
    return {
        str(span.attributes[semconv.URL_PATH]): span.attributes.get(semconv.HTTP_ROUTE)
        for span in spans.all
    }


@given(route_trees())
def test_every_path_of_a_tree_of_routes_has_its_template(tree: Tree) -> None:
    assert routes_of(tree, tree.paths) == tree.paths


@given(route_trees())
def test_what_no_route_of_a_tree_matches_has_none_or_that_of_its_mount(tree: Tree) -> None:
    assert routes_of(tree, tree.strangers) == tree.strangers
