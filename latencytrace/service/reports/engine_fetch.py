"""Fetches the metrics of engines: bounded in time and size, without redirects or a proxy."""

import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import httpx

from latencytrace.errors import ScrapeError, SettingsError
from latencytrace.service.net.addresses import flaw
from latencytrace.service.net.http_client import exchange

TIMEOUT_S: Final = 5.0  # in all, however slowly it comes
MAX_BYTES: Final = 16 << 20
MAX_ENGINES: Final = 64
_ACCEPT: Final = "text/plain;version=0.0.4"


def checked_engines(addresses: Sequence[str]) -> tuple[str, ...]:
    """Return addresses of engines' metrics, each once; `/metrics` where no path is named.

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
    """Return the text at an address.

    Raises:
        ScrapeError: There is none; the message says why.
    """
    deadline_s = time.monotonic() + timeout_s
    try:
        with exchange("GET", url, timeout_s, headers={"accept": _ACCEPT}) as answer:
            if not answer.is_success:
                raise ScrapeError(f"it answers {answer.status_code} {answer.reason_phrase}")
            return _read(answer, deadline_s)
    except OSError as error:
        raise ScrapeError(f"it does not answer: {error}") from None


def _read(answer: httpx.Response, deadline_s: float) -> str:
    body = bytearray()
    for chunk in answer.iter_raw():
        body += chunk
        if len(body) > MAX_BYTES:
            raise ScrapeError(f"its answer is longer than {MAX_BYTES >> 20} MiB")
        if time.monotonic() > deadline_s:
            raise ScrapeError("its answer comes too slowly")
    return body.decode("utf-8", "replace")
