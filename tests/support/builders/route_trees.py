"""Random trees of mounts, routers, hosts and applications, and the template that each path has."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import fastapi
import flask
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Host, Mount, Route, Router
from werkzeug.middleware.dispatcher import DispatcherMiddleware

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its successor is not installed
    from starlette.middleware.wsgi import WSGIMiddleware

HOST = "tree.example"
DEEPEST = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Where an application of the tree is called.

    Args:
        template: Of the prefix, as its mounts have it.
        asked: The same prefix with values in the place of its parameters.
    """

    template: str = ""
    asked: str = ""

    def below(self, place: "Place") -> "Place":
        """Return a place within."""
        return Place(self.template + place.template, self.asked + place.asked)


@dataclass
class Tree:
    """An application.

    Args:
        application: That is served.
        paths: What may be asked for, and the template of its route.
        strangers: Paths that no route of the tree has, and what their route may be.
    """

    application: Any = None
    paths: dict[str, str] = field(default_factory=dict)
    strangers: dict[str, str | None] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def segment(self, draw: st.DrawFn) -> Place:
        """Return a segment of its own: a word, or one with a parameter."""
        number = next(self._numbers)
        if draw(st.booleans()):
            return Place(f"/w{number}", f"/w{number}")
        return Place(f"/s{number}/{{p{number}}}", f"/s{number}/{1000 + number}")

    def route(self, draw: st.DrawFn, at: Place) -> str:
        """Return the path of one more route at a place."""
        own = self.segment(draw)
        found = at.below(own)
        self.paths[found.asked] = found.template
        return own.template

    def stranger(self, at: Place, route: str | None = None) -> None:
        """Note a path that nothing at a place has a route for."""
        self.strangers[f"{at.asked}/nowhere/{next(self._numbers)}"] = route


async def _answer(_: Request) -> PlainTextResponse:
    return PlainTextResponse("found")


async def _answer_one() -> str:
    return "found"


async def _bare(scope: Any, _: object, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"bare"})


class _Copying:
    """A middleware that hands on a copy of the scope."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(dict(scope), receive, send)


def _routes(draw: st.DrawFn, tree: Tree, at: Place, depth: int) -> list[BaseRoute]:
    """Return routes and mounts of Starlette's; a host, which takes whatever is left, at last."""
    routes: list[BaseRoute] = [
        Host("nobody.example", Router([Route("/{anything:path}", _answer)])),
        *(Route(tree.route(draw, at), _answer) for _ in range(draw(st.integers(0, 2)))),
        *_mounts(draw, tree, at, depth),
    ]
    if depth < DEEPEST and draw(st.integers(0, 3)) == 0:
        routes.append(Host(HOST, _application(draw, tree, at, depth + 1)))
    else:
        tree.stranger(at)
    return routes


def _mounts(draw: st.DrawFn, tree: Tree, at: Place, depth: int) -> Iterator[BaseRoute]:
    for _ in range(draw(st.integers(0, 2)) if depth < DEEPEST else 0):
        own = tree.segment(draw)
        within = _application(draw, tree, at.below(own), depth + 1)
        copying = isinstance(within, Starlette) and draw(st.booleans())
        yield Mount(own.template, _Copying(within) if copying else within)


def _starlette(draw: st.DrawFn, tree: Tree, at: Place, depth: int) -> Starlette:
    return Starlette(routes=_routes(draw, tree, at, depth))


def _router(draw: st.DrawFn, tree: Tree, at: Place, depth: int) -> Router:
    return Router(_routes(draw, tree, at, depth))


def _fill(draw: st.DrawFn, tree: Tree, router: Any, at: Place, depth: int) -> None:
    """Fill a router of FastAPI's, or an application, with all that it may have."""
    for _ in range(draw(st.integers(0, 2))):
        router.add_api_route(tree.route(draw, at), _answer_one)
    if draw(st.booleans()):
        router.add_route(tree.route(draw, at), _answer)
    for _ in range(draw(st.integers(0, 2)) if depth < DEEPEST else 0):
        own = tree.segment(draw)
        included = fastapi.APIRouter()
        _fill(draw, tree, included, at.below(own), depth + 1)
        router.include_router(included, prefix=own.template)
    for mount in _mounts(draw, tree, at, depth):
        router.routes.append(mount)


def _fastapi(draw: st.DrawFn, tree: Tree, at: Place, depth: int) -> fastapi.FastAPI:
    application = fastapi.FastAPI()
    for path in ("/docs", "/openapi.json"):
        tree.paths[at.asked + path] = at.template + path
    tree.stranger(at)
    _fill(draw, tree, application, at, depth)
    return application


def _wsgi(draw: st.DrawFn, tree: Tree, at: Place, _: int) -> Any:
    """Return Flask behind WSGI in ASGI, perhaps below a path of WSGI's own."""
    below = draw(st.sampled_from(["", "/old"]))
    where = at.below(Place(below, below))
    flasks = flask.Flask("tree")
    for _number in range(draw(st.integers(1, 2))):
        part = tree.segment(draw)
        rule = part.template.replace("{", "<").replace("}", ">")
        flasks.add_url_rule(rule, rule, lambda **_: "found")
        tree.paths[where.asked + part.asked] = where.template + rule
    tree.stranger(at, f"{at.template}/{{path}}")
    if not below:
        return WSGIMiddleware(flasks)
    return WSGIMiddleware(DispatcherMiddleware(flask.Flask("outside"), {below: flasks}))


def _plain(_: st.DrawFn, tree: Tree, at: Place, __: int) -> Any:
    tree.stranger(at, f"{at.template}/{{path}}")
    tree.paths[f"{at.asked}/"] = at.template
    return _bare


_KINDS: tuple[Callable[[st.DrawFn, Tree, Place, int], Any], ...] = (
    _starlette,
    _router,
    _fastapi,
    _wsgi,
    _plain,
)


def _application(draw: st.DrawFn, tree: Tree, at: Place, depth: int) -> Any:
    kind = draw(st.sampled_from(_KINDS if at.asked else _KINDS[:3]))
    return kind(draw, tree, at, depth)


@st.composite
def route_trees(draw: st.DrawFn) -> Tree:
    """Draw a tree whose root is an application of Starlette or FastAPI."""
    tree = Tree()
    kind = draw(st.sampled_from((_starlette, _fastapi)))
    tree.application = kind(draw, tree, Place(), 0)
    return tree
