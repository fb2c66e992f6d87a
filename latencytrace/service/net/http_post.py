"""Posts JSON to other programs, as sinks do: once, bounded in time, without redirects."""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

import orjson

from latencytrace.errors import SettingsError, SinkError
from latencytrace.model.texts.retry_after import retry_after_s
from latencytrace.service.net.addresses import flaw
from latencytrace.service.net.http_client import exchange

TIMEOUT_S = 10.0
_MOST_SAID = 200  # characters of a refusal


def checked_address(address: str, example: str) -> str:
    """Return an address that can be posted to.

    Raises:
        SettingsError: It is none; the message says the form, and nothing of the address.
    """
    wrong = flaw(address) if address else "is missing"
    if wrong is not None:
        raise SettingsError(f"its address {wrong}: write {example}")
    return address


def post_json(url: str, document: object, headers: Mapping[str, str] | None = None) -> None:
    """Post a document; a user and password in the address are sent as such.

    Raises:
        SinkError: It was not answered with success; with the pause that the answer asks for.
    """
    parts = urlsplit(url)
    try:
        with exchange(
            "POST",
            url,
            TIMEOUT_S,
            content=orjson.dumps(document),
            headers={"content-type": "application/json", **(headers or {})},
            proxy=_proxy(parts),
        ) as answer:
            said = next(answer.iter_raw(_MOST_SAID), b"").decode("utf-8", "replace").strip()
    except (OSError, ValueError, ImportError) as error:  # the last two: of a proxy's address
        raise SinkError(f"{parts.hostname} does not answer: {error}") from None
    if not answer.is_success:
        status = f"{parts.hostname} answered {answer.status_code}"
        pause_s = retry_after_s(
            answer.headers.get("retry-after", ""), answer.headers.get("date", "")
        )
        raise SinkError(f"{status}: {said or answer.reason_phrase}", pause_s)


def _proxy(parts: SplitResult) -> str | None:
    """Find the proxy that the environment names; None: none, as for this very machine."""
    host = parts.hostname or ""
    if _is_loopback(host) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    named = getproxies().get(parts.scheme)
    return named if named is None or "://" in named else f"http://{named}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
