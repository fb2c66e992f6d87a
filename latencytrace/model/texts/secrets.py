"""Addresses and texts as they may be shown: without the passwords that stand in them."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

HIDDEN = "…"
_SHORTEST = 4  # signs; what is shorter would hide half of a text
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+|[^\s='\"]+:[^\s'\"]*@\S+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def shown(address: str) -> str:
    """An address without user, password and query, also one that is malformed.

    Everything before the last `@` may be of a password that was not escaped.
    """
    scheme = _SCHEME.match(address)
    start = scheme.end() if scheme else 0
    before, at, rest = address[start:].rpartition("@")
    rest, query, _ = rest.partition("?")
    rest = rest.partition("#")[0]
    user = f"{HIDDEN}@" if at and before else ""
    return f"{address[:start]}{user}{rest}{f'?{HIDDEN}' if query else ''}"


def text_shown(text: str) -> str:
    """A text with each address in it as `shown` says it."""
    return _ADDRESS.sub(lambda found: shown(found[0]), text)


def why_no_address(address: str, error: ValueError) -> str:
    """Return why an address is none, without an error that may repeat a part of a password."""
    why = "of what stands before its last @ (in a password, / is %2F, : is %3A and @ is %40)"
    return f"{shown(address)!r} is no address: {why if '@' in address else error}"


def parted(address: str) -> tuple[str, dict[str, str]]:
    """An address without user and password, and the header that says them instead.

    Raises:
        ValueError: The text is not an address.
    """
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return address, {}
    from base64 import b64encode  # noqa: PLC0415 - few addresses have one

    name, _, password = user.partition(":")
    both = f"{unquote(name)}:{unquote(password)}"
    header = {"authorization": f"Basic {b64encode(both.encode()).decode('ascii')}"}
    return urlunsplit(parts._replace(netloc=host)), header


def with_path(address: str, path: str) -> str:
    """An address with a path added, before its query."""
    base, query, rest = address.partition("?")
    return f"{base.rstrip('/')}{path}{query}{rest}"


class Secrets:
    """Parts of an address and of headers that are never shown.

    Args:
        headers: Sent with it; their values are secrets.
    """

    def __init__(self, address: str, headers: Mapping[str, str]) -> None:
        self._texts = sorted(_secrets(address, headers), key=len, reverse=True)

    def hidden_in(self, text: str) -> str:
        """The text without any of them: a library's error or a server's answer may repeat one."""
        for secret in self._texts:
            text = text.replace(secret, HIDDEN)
        return text


def _secrets(address: str, headers: Mapping[str, str]) -> set[str]:
    try:
        parts = urlsplit(address)
        _, of_user = parted(address)
    except ValueError:
        return set()
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    found: list[str] = [password, unquote(password), *(() if password else (user, unquote(user)))]
    found += [parts.query, *(value for _, value in parse_qsl(parts.query))]
    for value in (*of_user.values(), *_credentials(headers)):
        found += [value, *value.split()]
    return {one for one in found if len(one) >= _SHORTEST and one not in {"Basic", "Bearer"}}


def _credentials(headers: Mapping[str, str]) -> Iterable[str]:
    return (value for name, value in headers.items() if name.lower() != "content-type")
