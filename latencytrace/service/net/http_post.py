"""Posts JSON to other programs, as sinks do: once, bounded in time, without redirects."""

import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPException
from importlib.metadata import version
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

import orjson

from latencytrace.errors import SettingsError, SinkError
from latencytrace.service.net.addresses import flaw

TIMEOUT_S = 10.0
_MOST_SAID = 200  # characters of a refusal
_AGENT = f"latencytrace/{version('latencytrace')}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A post that is redirected would become a GET."""

    def redirect_request(self, *_: object) -> None:
        """Leave it to be an error."""


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
_by_proxy = urllib.request.build_opener(_NoRedirect)


def checked_address(address: str, example: str) -> str:
    """An address that can be posted to.

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
        SinkError: It was not answered with success.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    request = urllib.request.Request(  # noqa: S310 - http or https, see `checked_address`
        parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(),
        orjson.dumps(document),
        {"Content-Type": "application/json", "User-Agent": _AGENT, **(headers or {})},
        method="POST",
    )
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_header("Authorization", f"Basic {b64encode(pair.encode()).decode()}")
    opener = _direct if _is_loopback(host) else _by_proxy
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            answer.read(_MOST_SAID)
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(_MOST_SAID).decode("utf-8", "replace").strip()
        raise SinkError(f"{host} answered {error.code}: {said or error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise SinkError(f"{host} does not answer: {reason}") from None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
