"""Readers of one variable of the environment: as a flag, a number, a list, an address."""

import re
from collections.abc import Mapping
from itertools import pairwise
from math import inf, nan
from urllib.parse import unquote

from latencytrace.errors import SettingsError
from latencytrace.model.texts.secrets import shown

OFF = "off"  # in the place of an address to listen on, or of a limit
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LENGTH = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([smhd])")
_UNITS_BYTES = {
    "mb": 10**6, "gb": 10**9, "tb": 10**12, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([mgt]i?b)", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110's
_HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]*")  # what http.client can send of a header


def flag(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").strip().lower() in {"1", "true", "yes", "on"}


def specified_flag(environ: Mapping[str, str], name: str) -> bool:
    """Return whether a flag of OpenTelemetry's specification says yes: by `true` alone."""
    return environ.get(name, "").strip().lower() == "true"


def optional_flag(environ: Mapping[str, str], name: str) -> bool | None:
    """Return what a flag says; None: nothing.

    Raises:
        SettingsError: The value is not a flag.
    """
    text = environ.get(name, "").strip().lower()
    if text in {"0", "false", "no", "off"}:
        return False
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"", "auto"}:
        return None
    raise SettingsError(f"{name}={text!r} is none of 0, 1 and auto")


def names(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    """A list, separated by commas."""
    return tuple(part.strip() for part in environ.get(name, "").split(",") if part.strip())


def number(
    environ: Mapping[str, str],
    name: str,
    default: float,
    *,
    least: float = -inf,
    most: float = inf,
) -> float:
    """A number within bounds.

    Raises:
        SettingsError: The value cannot be used.
    """
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise SettingsError(f"{name}={text!r} is not a number") from None
    if not least <= value <= most:  # "not a number" is within none
        raise SettingsError(f"{name}={text!r} is not from {least:.15g} to {most:.15g}")
    return value


def rising(environ: Mapping[str, str], name: str) -> tuple[float, ...]:
    """Numbers above 0, each larger than the one before; none where the variable is not set.

    Raises:
        SettingsError: The value is something else.
    """
    texts = names(environ, name)
    try:
        found = tuple(float(text) for text in texts)
    except ValueError:
        found = (nan,)
    if any(not before < after < inf for before, after in pairwise((0.0, *found))):
        raise SettingsError(
            f"{name}={','.join(texts)!r} are no rising numbers above 0: write 0.01,0.1,1,10"
        )
    return found


def length_s(environ: Mapping[str, str], name: str, default: float) -> float | None:
    """A length of time with its unit, as `30d`; None: `off`.

    Raises:
        SettingsError: The value is something else, or 0.
    """
    examples = "30d, 12h or off"
    return _with_unit(
        environ, name, default, _LENGTH, _UNITS_S, f"length of time: write {examples}"
    )


def size_bytes(environ: Mapping[str, str], name: str, default: float) -> float | None:
    """A size with its unit, as `20GB`; None: `off`.

    Raises:
        SettingsError: The value is something else, or 0.
    """
    wanted = "size: write 20GB, 500MB or off"
    return _with_unit(environ, name, default, _SIZE, _UNITS_BYTES, wanted)


def _with_unit(
    environ: Mapping[str, str],
    name: str,
    default: float,
    form: re.Pattern[str],
    units: Mapping[str, int],
    wanted: str,
) -> float | None:
    text = environ.get(name, "").strip()
    if not text:
        return default
    if text.lower() == OFF:
        return None
    found = form.fullmatch(text)
    value = float(found[1]) * units[found[2].lower()] if found else 0
    if not value:
        raise SettingsError(f"{name}={text!r} is no {wanted}")
    return value


def of_signal(environ: Mapping[str, str], signal: str, name: str) -> str | None:
    """A setting of OTLP, that for traces or for metrics first."""
    own = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_{name}", "").strip()
    return own or environ.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip() or None


def web_address(environ: Mapping[str, str], name: str) -> str | None:
    """An address of HTTP, without a slash at its end.

    Raises:
        SettingsError: The value cannot be used.
    """
    text = environ.get(name, "").strip().rstrip("/")
    if text and not text.startswith(("http://", "https://")):
        raise SettingsError(f"{name}={shown(text)!r} must begin with http:// or https://")
    return text or None


def headers(environ: Mapping[str, str]) -> dict[str, str]:
    """Headers that go with spans.

    Raises:
        SettingsError: They are not written as OpenTelemetry's, or HTTP cannot carry them. The
            message holds none of them: they may be secrets.
    """
    variable = "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
    if not environ.get(variable):
        variable = "OTEL_EXPORTER_OTLP_HEADERS"
    found = {}
    for place, pair in enumerate(environ.get(variable, "").split(","), 1):
        if not pair.strip():
            continue
        name, separator, value = (unquote(part.strip()) for part in pair.partition("="))
        if not (separator and _HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise SettingsError(f"{variable}: what stands at place {place} is not NAME=VALUE")
        found[name.lower()] = value
    return found
