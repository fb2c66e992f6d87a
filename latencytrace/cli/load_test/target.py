"""The target of a load: from flags to bytes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from latencytrace.errors import SettingsError

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One address and everything that is sent to it."""

    url: str
    method: str
    headers: Mapping[str, str]
    bodies: Sequence[bytes]  # in turn; none: requests without a body
    timeout_s: float  # from when a request is due
    max_in_flight: int
    paths: Sequence[str] = ("",)  # behind the address, in turn

    @property
    def public_url(self) -> str:
        """The address without what may be secret: user, password and query."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))


def target(
    url: str,
    *,
    method: str | None,
    headers: Sequence[str],
    json_body: str | None,
    body: str | None,
    bodies: Path | None,
    timeout_s: float,
    max_in_flight: int,
) -> Target:
    """Read what the flags ask for; POST where there is a body, GET where there is none.

    Raises:
        SettingsError: A flag cannot be used; the message names it.
    """
    texts, content_type = _bodies(json_body, body, bodies)
    named = dict(_header(line) for line in headers)
    defaults = {
        "user-agent": "latencytrace-load",
        "accept-encoding": "identity",  # a compressor would hold tokens back
    }
    if content_type is not None:
        defaults["content-type"] = content_type
    return Target(
        url=_address(url),
        method=(method or ("POST" if texts else "GET")).upper(),
        headers={**defaults, **named},
        bodies=texts,
        timeout_s=timeout_s,
        max_in_flight=max_in_flight,
    )


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise SettingsError(f"{url!r} is no address: write http://HOST:PORT/PATH")
    return url


def _header(line: str) -> tuple[str, str]:
    name, separator, value = line.partition(":")
    if not separator or not name.strip():
        raise SettingsError(f"--header {name!r}: write 'Name: value'")
    return name.strip().lower(), value.strip()


def _bodies(
    json_body: str | None, body: str | None, bodies: Path | None
) -> tuple[list[bytes], str | None]:
    """The bodies and their content type."""
    if [json_body, body, bodies].count(None) < 2:  # noqa: PLR2004 - all but one
        raise SettingsError("give one of --json-body, --body and --bodies")
    if json_body is not None:
        if not _is_json(json_body.encode()):
            raise SettingsError("--json-body is not JSON; --body sends any text")
        return [json_body.encode()], JSON
    if body is not None:
        content = _read(Path(body[1:])) if body.startswith("@") else body.encode()
        return [content], JSON if _is_json(content) else "application/octet-stream"
    if bodies is not None:
        return _json_lines(bodies), JSON
    return [], None


def _json_lines(path: Path) -> list[bytes]:
    lines = [line for line in _read(path).splitlines() if line.strip()]
    wrong = next((number for number, line in enumerate(lines, 1) if not _is_json(line)), None)
    if wrong is not None or not lines:
        where = "is empty" if wrong is None else f"has no JSON in line {wrong}"
        raise SettingsError(f"--bodies: {path} {where}; write one JSON document a line")
    return lines


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
