"""The template of the route that an ASGI request takes through mounts, hosts and routers.

A scope has the route that matched last, and of mounts only the path as it was asked for. So
each mount that a request passes is noted in the scope that it hands on.
"""

from collections.abc import Iterable, MutableMapping
from typing import Any, Final, NamedTuple

from latencytrace.agent.toolkit.http.path_shapes import SHAPES
from latencytrace.agent.toolkit.http.routed import RoutedRequest

Scope = MutableMapping[str, Any]

MOUNTED: Final = "latencytrace.mounted"  # in a scope: the mount that it was handed on by
_NOTED: Final = frozenset({"app", "router", "path_template"})  # by frameworks, in a scope
_WITHIN: Final = "latencytrace.within"  # in a request's scope: the one that a mount has instead


class Mounted(NamedTuple):
    """An application that is called for a part of the paths or of the hosts.

    Args:
        template: Of the prefix of its paths, with that of the mounts around it.
        root_path: The same prefix as it was asked for, with that of the server.
    """

    template: str
    root_path: str
    application: object

    def prefix(self, root_path: str) -> str:
        """Return the template of a prefix that begins with its own."""
        return self.template + SHAPES.of(root_path.removeprefix(self.root_path))


def note_mount(scope: Scope, mount: Any) -> None:
    outer = scope.get(MOUNTED)
    template = "" if outer is None else outer.template
    template += str(getattr(mount, "path_format", "")).removesuffix("/{path}")
    scope[MOUNTED] = Mounted(template, str(scope.get("root_path", "")), mount.app)


class ScopeRouted(RoutedRequest):
    """Finds the route of a request in its scope."""

    __slots__ = ()
    _scope: Scope  # with which it began

    def route(self) -> str | None:
        """Return its template with the prefix of its mounts."""
        return route_of(self._scope)

    def prefix(self, root_path: str = "") -> str:
        """Return the template of the mount that an application within is called for."""
        mount: Mounted | None = _latest(self._scope).get(MOUNTED)
        return "" if mount is None else mount.prefix(root_path or mount.root_path)

    def is_explained(self) -> bool:
        """Tell whether a framework that notes its routes has seen it."""
        return not _NOTED.isdisjoint(self._scope)

    def goes_on_with(self, scope: Scope) -> None:
        """Note the scope of an application within, which may be a copy that a middleware made."""
        if scope is not self._scope:
            self._scope[_WITHIN] = scope


def _latest(request_scope: Scope) -> Scope:
    found: Scope = request_scope.get(_WITHIN, request_scope)
    return found


def route_of(request_scope: Scope) -> str | None:
    """Return the template with the prefix of its mounts; None: no route matched."""
    scope = _latest(request_scope)
    mount: Mounted | None = scope.get(MOUNTED)
    found = _leaf(scope, mount)
    if mount is None:
        return None if found is None else _unexplained(scope) + found
    if found is not None:
        return mount.template + found
    if _routes_in(mount.application) is not None:
        return None
    rest = str(scope.get("path", "")).removeprefix(mount.root_path)
    return f"{mount.template}/{{path}}" if rest.strip("/") else mount.template or "/"


def _unexplained(scope: Scope) -> str:
    """Return the template of a prefix that a mount of no known kind took off."""
    root = str(scope.get("root_path", ""))
    return SHAPES.of(root.removeprefix(str(scope.get("app_root_path", root))))


def _leaf(scope: Scope, mount: Mounted | None) -> str | None:
    """Return the template of the route that matched within the innermost mount."""
    route = scope.get("route")
    fastapi = scope.get("fastapi") or {}
    included = fastapi.get("effective_route_context")
    if included is not None:
        # Of a route that an included router brought, only FastAPI's own note has the prefix.
        if included.original_route is route:
            route = included
        elif _leads_to(included.starlette_route, scope.get("endpoint")):
            route = included.starlette_route
    if route is None or not _is_leaf(route):  # FastAPI and older Starlettes note no plain ones
        router = scope.get("router") if mount is None else mount.application
        route = _found(_routes_in(router) or (), scope)
    path = getattr(route, "path_format", None) or getattr(route, "path", None)
    if path is None and "frontend_path" in fastapi:
        files = str(scope.get("path", "")).removesuffix(str(fastapi["frontend_path"]))
        path = f"{files.removeprefix(str(scope.get('root_path', ''))).rstrip('/')}/{{path}}"
    if path is None:
        path = scope.get("path_template")  # as Litestar notes it
    return None if path is None else str(path)


def _is_leaf(route: object) -> bool:
    """Tell a route to an endpoint from a mount, and from a host."""
    return hasattr(route, "endpoint") or not hasattr(route, "app")


def _leads_to(route: object, endpoint: object) -> bool:
    return endpoint is not None and getattr(route, "endpoint", None) is endpoint


def _found(routes: Iterable[Any], scope: Scope) -> object:
    """Return which of the routes leads to the endpoint that was found; None: none does."""
    endpoint = scope.get("endpoint")
    found = [route for route in routes if _leads_to(route, endpoint)]
    if len(found) > 1:
        path = str(scope.get("path", "")).removeprefix(str(scope.get("root_path", "")))
        found = [route for route in found if route.path_regex.match(path)]
    return found[0] if found else None


def _routes_in(application: Any) -> Iterable[Any] | None:
    """Return the routes of an application within its middlewares; None: it has none."""
    seen: set[int] = set()
    while application is not None and id(application) not in seen:
        seen.add(id(application))
        routes = getattr(application, "routes", None)
        if isinstance(routes, list):
            return routes
        application = getattr(application, "app", None)
    return None
