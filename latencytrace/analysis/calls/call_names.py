"""Names of outgoing calls: instrumentations call each of them by its method alone."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from latencytrace.analysis.trace.routes import METHODS
from latencytrace.model import semconv

_BARE: Final = METHODS | {f"HTTP {method}" for method in METHODS} | {"HTTP"}
_ADDRESSES: Final = (semconv.URL_FULL, semconv.HTTP_URL_OLD)
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
    url = _first(attributes, _ADDRESSES)
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
