"""Fetches the metrics of engines: bounded in time and size, without redirects or a proxy."""

import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException, HTTPResponse
from typing import Final
from urllib.parse import urlsplit

from latencytrace.errors import ScrapeError, SettingsError
from latencytrace.service.net.addresses import flaw

TIMEOUT_S: Final = 5.0  # in all, however slowly it comes
MAX_BYTES: Final = 16 << 20
MAX_ENGINES: Final = 64
_CHUNK_BYTES: Final = 1 << 16
_ACCEPT: Final = "text/plain;version=0.0.4"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An engine answers at the address that it was given."""

    def redirect_request(self, *_: object) -> None:
        """Leave it to be an error."""


_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


def checked_engines(addresses: Sequence[str]) -> tuple[str, ...]:
    """Addresses of engines' metrics, each once; `/metrics` where no path is named.

    Raises:
        SettingsError: One is no address, or there are too many.
    """
    found: dict[str, None] = {}
    for address in addresses:
        wrong = flaw(address)
        if wrong is not None:
            named = "an address" if "@" in address else repr(address)  # or a password is shown
            raise SettingsError(
                f"LATENCYTRACE_SCRAPE: {named} {wrong}: write http://HOST:8000/metrics"
            )
        parts = urlsplit(address)
        if "@" in parts.netloc:
            raise SettingsError(f"LATENCYTRACE_SCRAPE: {parts.hostname} is named with a password")
        found[address if parts.path.strip("/") else f"{address.rstrip('/')}/metrics"] = None
    if len(found) > MAX_ENGINES:
        raise SettingsError(
            f"LATENCYTRACE_SCRAPE names {len(found)} engines, more than {MAX_ENGINES}: let "
            "several services scrape, or Prometheus itself"
        )
    return tuple(found)


def fetch(url: str, timeout_s: float = TIMEOUT_S) -> str:
    """The text at an address.

    Raises:
        ScrapeError: There is none; the message says why.
    """
    deadline_s = time.monotonic() + timeout_s
    request = urllib.request.Request(url, headers={"Accept": _ACCEPT})  # noqa: S310 - see settings
    try:
        with _opener.open(request, timeout=timeout_s) as answer:
            return _read(answer, deadline_s)
    except urllib.error.HTTPError as error:
        error.close()
        raise ScrapeError(f"it answers {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise ScrapeError(f"it does not answer: {reason}") from None


def _read(answer: HTTPResponse, deadline_s: float) -> str:
    body = bytearray()
    while chunk := answer.read1(_CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_BYTES:
            raise ScrapeError(f"its answer is longer than {MAX_BYTES >> 20} MiB")
        if time.monotonic() > deadline_s:
            raise ScrapeError("its answer comes too slowly")
    return body.decode("utf-8", "replace")
