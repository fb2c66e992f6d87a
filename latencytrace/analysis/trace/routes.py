"""The route that a request took, and whether it only asks how the server is."""

import re
from collections.abc import Mapping
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


_BARE: Final = METHODS | {f"HTTP {method}" for method in METHODS} | {"HTTP"}
_CALLED_ADDRESSES: Final = (semconv.URL_FULL, semconv.HTTP_URL_OLD)
_PATHS: Final = (semconv.URL_TEMPLATE, semconv.URL_PATH, semconv.HTTP_TARGET_OLD)
_HOSTS: Final = (semconv.SERVER_ADDRESS, semconv.NET_PEER_NAME_OLD)
# What differs in each call: numbers, UUIDs, and long texts with digits or in hex.
_ID: Final = re.compile(r"\d+|[0-9a-fA-F-]{16,}|(?=[^/]*\d)[A-Za-z0-9_-]{20,}")


def call_name(name: str, attributes: Mapping[str, object]) -> str:
    """The name of a span; of a call that only its method names, with host and path's template.

    `POST` becomes `POST api.example.com/v1/items/{id}`, as far as its attributes say so.
    """
    if name not in _BARE:
        return name
    url = _first(attributes, _CALLED_ADDRESSES)
    try:
        parts = urlsplit(url) if url else None
        host = _first(attributes, _HOSTS) or (parts.hostname if parts else None) or ""
    except ValueError:  # no address after all
        return name
    path = _first(attributes, _PATHS) or (parts.path if parts else "")
    template = "/".join(
        "{id}" if _ID.fullmatch(part) else part for part in path.partition("?")[0].split("/")
    )
    called = f"{host}{template}"
    return f"{name.removeprefix('HTTP ')} {called}" if called else name


def _first(attributes: Mapping[str, object], keys: tuple[str, ...]) -> str | None:
    found = (attributes.get(key) for key in keys)
    return next((value for value in found if isinstance(value, str) and value), None)
