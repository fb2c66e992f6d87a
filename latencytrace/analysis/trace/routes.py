"""The route that a request took, and whether it only asks how the server is."""

from typing import Final
from urllib.parse import unquote, urlsplit

from latencytrace.analysis.trace.known_engines import title_of
from latencytrace.model import AttributeValue, Span, SpanKind, semconv
from latencytrace.model.health_paths import is_health_path
from latencytrace.model.texts.escaped import is_blank, named

UNMATCHED: Final = "unmatched"  # the route of all requests that no route of the server matched
METHODS: Final = frozenset(  # that the conventions know
    {
        "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE",
    }
)  # fmt: skip

_ADDRESSES = (semconv.URL_PATH, semconv.HTTP_TARGET_OLD, semconv.URL_FULL, semconv.HTTP_URL_OLD)


def route_of(root: Span) -> str:
    """`POST /chat` from the template of the route; else the span's own name.

    An HTTP server's span that has no route, and is named by the method alone or with the path
    as it was asked for, is `UNMATCHED`: callers make up as many paths as they like. So they do
    methods: one that the conventions do not know is `HTTP`, as in their names of spans. What has
    neither is `UNNAMED`.
    """
    route, method = root.attributes.get(semconv.HTTP_ROUTE), _method(root)
    if method and route and not is_blank(str(route)):
        return f"{method if method in METHODS else 'HTTP'} {route!s}"
    if method and root.kind is SpanKind.SERVER and not route and _is_as_asked(root, method):
        return UNMATCHED
    return named(title_of(root))


def is_health(root: Span) -> bool:
    """Tell whether a request is a probe: of health, readiness, version or metrics."""
    if root.kind is not SpanKind.SERVER:
        return False
    path = str(root.attributes.get(semconv.HTTP_ROUTE) or _path(root) or root.name)
    return is_health_path(path, _method(root))


def _is_as_asked(root: Span, method: str) -> bool:
    """Return whether a name tells no more than the method, with the path or without."""
    name = root.name.partition("?")[0]
    if name in {method, "HTTP", f"HTTP {method}"}:
        return True
    path = _path(root)
    return path is not None and name.removeprefix(method).strip() in {path, unquote(path)}


def _method(root: Span) -> str:
    method = root.attributes.get(semconv.HTTP_REQUEST_METHOD)
    return str((root.attributes.get(semconv.HTTP_METHOD_OLD) if method is None else method) or "")


def _path(root: Span) -> str | None:
    """The path that was asked for."""
    for key in _ADDRESSES:
        address: AttributeValue = root.attributes.get(key)
        if address and isinstance(address, str):
            return address.partition("?")[0] if address.startswith("/") else _path_in(address)
    return None


def _path_in(address: str) -> str | None:
    try:
        return urlsplit(address).path or "/"
    except ValueError:
        return None
