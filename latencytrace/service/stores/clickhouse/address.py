"""The address of a ClickHouse server, in the form that its own clients have."""

import re
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from latencytrace.errors import SettingsError
from latencytrace.model.texts.secrets import shown, why_no_address
from latencytrace.service.sql.tables import DATABASE

SCHEME: Final = "clickhouse"
_PORT, _TLS_PORT = 8123, 8443  # of HTTP
_NATIVE_PORTS: Final = frozenset({9000, 9440})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_CLUSTER: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_YES: Final = frozenset({"1", "true", "yes", "on", ""})
_NO: Final = frozenset({"0", "false", "no", "off"})
_KNOWN: Final = ("secure", "cluster", "ca_cert")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """A database on a server, and the user who asks."""

    host: str
    port: int
    secure: bool = False  # over TLS
    user: str = "default"
    password: str = field(default="", repr=False)
    database: str = DATABASE
    cluster: str | None = None  # of servers with copies of the tables
    authorities: str | None = None  # a file; the server's certificate is checked by them

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `clickhouse://USER:PASSWORD@HOST:PORT/DATABASE?secure=1&cluster=NAME`.

        Raises:
            SettingsError: It is none; the message shows no password.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise SettingsError(why_no_address(url, error)) from None
        if "@" in f"{parts.path}{parts.query}{parts.fragment}":  # of a password, perhaps
            raise SettingsError(why_no_address(url, ValueError()))
        options = _options(parts)
        secure = _is_secure(options.get("secure", "0"))
        if not parts.hostname or parts.fragment:
            raise SettingsError(
                f"{shown(url)!r} names no server: write {SCHEME}://HOST:{_PORT}/{DATABASE}"
            )
        if port in _NATIVE_PORTS:
            raise SettingsError(
                f"{port} is the port of ClickHouse's native protocol: name that of HTTP, by "
                f"default {_PORT}, and {_TLS_PORT} with secure=1"
            )
        return cls(
            host=parts.hostname,
            port=port or (_TLS_PORT if secure else _PORT),
            secure=secure,
            user=unquote(parts.username or "default"),
            password=unquote(parts.password or ""),
            database=_name("database", unquote(parts.path.strip("/")) or DATABASE, _NAME),
            cluster=_name("cluster", options["cluster"], _CLUSTER)
            if "cluster" in options
            else None,
            authorities=options.get("ca_cert"),
        )

    @property
    def url(self) -> str:
        """The address, without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


def _options(parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - set(_KNOWN))
    if unknown:
        raise SettingsError(
            f"a store on a ClickHouse server has no option {unknown[0]!r}: there are "
            f"{', '.join(_KNOWN)}"
        )
    return options


def _is_secure(text: str) -> bool:
    if text.lower() in _YES:
        return True
    if text.lower() in _NO:
        return False
    raise SettingsError(f"secure={text!r} is neither 1 nor 0")


def _name(what: str, text: str, pattern: re.Pattern[str]) -> str:
    if not pattern.fullmatch(text):
        raise SettingsError(
            f"{text!r} cannot be the name of a {what}: letters, digits and _ are taken"
        )
    return text
