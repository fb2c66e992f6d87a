"""Texts without what they may tell of secrets: values, addresses, names, states of traces.

Each function returns what it is given where nothing is to be removed, and so for all that it
returned itself. The patterns see texts of a bounded length only.
"""

import re
from collections.abc import Callable
from typing import Final

import orjson

from latencytrace.model import semconv

MARK: Final = semconv.CONTENT_REMOVED  # stands in the place of content
KNOWN_CHARACTERS: Final = 256
LONG_CHARACTERS: Final = 1024
ADDRESS_CHARACTERS: Final = 2048  # without its query
UNKNOWN_BYTES: Final = 256  # of a value whose key no list knows; longer is content
NAME_CHARACTERS: Final = 256  # of the name of a span or an event
_LONGEST_NAME: Final = 1024  # a longer one is content
_LONGEST_ADDRESS: Final = 8192  # with its query
_LONGEST_STATE: Final = 512  # as W3C has it
PACKED_CHARACTERS: Final = 16 * 1024

_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
# Each text that is not left as it is has one of these, in lower case.
_TELLING = re.compile(
    r"[\x00-\x1f\x7f\x85\u2028\u2029?#@=]|%40|\{\s*[\"']|\[\s*\{|earer|basic|[spr]k[-_]|r8_|gsk_|eyj|gh[a-z]_|github_"
    r"|glpat|akia|asia|xox|aiza|hf_|nvapi|-----"
    r"|(?:pass|passw(?:or)?d|passphrase|pwd|secret|token|credentials?|key)[\"']?\s*:"
)
_SECRET = re.compile(
    r"""(?x)
    \b(?i:bearer)\s+\S
    | ^\s*(?i:basic)\s+\S+\s*$ | \b(?i:basic)\s+(?:[A-Za-z0-9+/_-]{16}|[A-Za-z0-9+/]{2,}=)
    | \b(?:[spr]k|gsk|r8|nvapi)[-_](?=[\w-]{0,40}\d)[\w-]{8}  # OpenAI, Stripe, Groq, NVIDIA
    | \beyJ[\w-]{8}                                           # JSON web tokens
    | \b(?:gh[a-z]_|github_pat_|glpat-)\w{8} | \bhf_[A-Za-z0-9]{8}
    | \b(?:AKIA|ASIA)[A-Z0-9]{8} | \bxox[a-z]-\w | \bAIza[\w-]{16}
    | -----BEGIN
    | (?i:(?<![a-z])pass|passw(?:or)?d|passphrase|pwd|secret|token|credentials?
        |(?:access|account|api|private|shared|signing)[ _-]?(?:access)?[ _-]?key
      )["']?\s*[=:]\s*\S
    | (?i:(?<![a-z])sig)=\S
    | (?i:%3A)\S{0,99}%40                                     # an address within another
    """
)
_JSON = re.compile(r"[\s\ufeff]*[{\[\"]")
_OBJECT = re.compile(r"[\s\ufeff]*(?:\{\s*[\"']|\[\s*\{)")
_IPV6 = re.compile(r"\[[0-9A-Fa-f]*:[0-9A-Fa-f:.]*\](?::[0-9]+)?")
_DATA = re.compile(r"\s*data:", re.IGNORECASE)
_ADDRESS_THAT_TELLS = re.compile(r"(?:^/|//)\S*[?#@]")
_SCHEME = re.compile(r"\s*(?:[A-Za-z][A-Za-z0-9+.-]*:)*//")
_WEB = re.compile(r"(?:^|[^A-Za-z0-9+.:-])(?:(?:https?|wss?|grpcs?):)?$", re.IGNORECASE)
_AUTHORITY = re.compile(r"[^/?#]*")
_NO_PORT = re.compile(r"[^:\[]*:(?![0-9]*$)")  # that of `user:pass/word@host`
_SPACE = re.compile(r"(\s+)")
_WORDS = re.compile(r"\S+")
_QUERY = re.compile(  # but for templates of routes: `{id?}`, `(?P<id>…)`
    r"(?<!\()\?(?!\})|(?<=\()\?(?!P?<|[:=!])|#"
)
_PARAMETER = re.compile(r"\?[^\s?=]+=")
_WORD = re.compile(r"[A-Za-z0-9_./:-]{0,64}")
_NUMBER = re.compile(r"[-+]?[0-9][0-9.,_]{0,24}(?:e[-+]?[0-9]{1,3})? ?[a-zµμ%/]{0,8}|None|null")
_PACKED = re.compile(rf"[A-Za-z0-9_+:;,.-]{{0,{PACKED_CHARACTERS}}}")
_LEADING_TYPE = re.compile(
    r"([A-Za-z_][A-Za-z0-9_.$]{0,127}"
    r"(?:Cancelled|Error|Exception|Exit|Failure|Fault|Interrupt|Iteration|Timeout|Warning))"
    r"(?:$|[:( \t\n\f\r])"
)
_STATES = {  # the vendors whose entries of a `tracestate` are kept, and what these may be
    "dd": r"(?:(?:s|o|p|t\.dm|t\.tid):[A-Za-z0-9-]{1,16}(?:;|$))+",  # Datadog
    "dt": r"fw4(?:;[0-9a-f]{1,16}){1,12}",  # Dynatrace
    "es": r"s:[0-9.]{1,8}",  # Elastic
    "in": r"[0-9a-f]{16,32};[0-9a-f]{16}",  # Instana
    "nr": r"[0-9a-f.-]{1,96}",  # New Relic
    "ot": r"(?:(?:th|rv|p|r):[0-9a-f]{1,14}(?:;|$))+",  # OpenTelemetry
    "sw": r"[0-9a-f]{16}-[0-9a-f]{2}",  # SolarWinds
}
_STATE = re.compile(
    "|".join(rf"(?:[a-z0-9-]{{1,32}}@)?{vendor}={value}" for vendor, value in _STATES.items())
)


def holds_secret(text: str) -> bool:
    """Return whether a text has the form of a password, a token or a key somewhere."""
    return _SECRET.search(text) is not None or ("jdbc:" in text.lower() and "@" in text)


def known(text: str) -> str:
    """The name of something, without the user, the password and the query of an address."""
    return _value(text, KNOWN_CHARACTERS)


def long(text: str) -> str:
    """Likewise, of a path and the like."""
    return _value(text, LONG_CHARACTERS)


def unknown(text: str) -> str:
    """A value of an unknown kind: all of it or nothing."""
    if text == MARK:
        return text
    if len(text) > UNKNOWN_BYTES or len(text.encode()) > UNKNOWN_BYTES:
        return MARK
    if _DATA.match(text) or (_JSON.match(text) and not _IPV6.fullmatch(text)):
        return MARK
    if not _TELLING.search(text.lower()):
        return text
    tells = _CONTROL.search(text) or _ADDRESS_THAT_TELLS.search(text) or holds_secret(text)
    return MARK if tells or _words(text) != text else text


def address(text: str) -> str:
    """An address without user, password, query and fragment."""
    if len(text) > _LONGEST_ADDRESS:
        return "data:" if _DATA.match(text) else MARK
    return _until_stable(text, _address)


def packed(text: str) -> str:
    """Numbers in a format of ours."""
    return text if _PACKED.fullmatch(text) else MARK


def word(text: str) -> str:
    """A short name without blanks."""
    return text if _WORD.fullmatch(text) and not holds_secret(text) else MARK


def number(text: str) -> str:
    """A number, perhaps with its unit."""
    return text if _NUMBER.fullmatch(text) else MARK


def counts(text: str) -> str:
    """A JSON object of plain names and numbers."""
    if len(text) > LONG_CHARACTERS:
        return MARK
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return MARK
    is_plain = isinstance(found, dict) and all(
        word(key) != MARK and (value is None or isinstance(value, int | float))
        for key, value in found.items()
    )
    return text if is_plain else MARK


def content(_text: str) -> str:
    """Nothing of it."""
    return MARK


def name(text: str) -> str:
    """The name of a span, an event or a scope, without what an address in it tells."""
    if len(text) > _LONGEST_NAME:
        return MARK
    if len(text) <= NAME_CHARACTERS and not _TELLING.search(text.lower()):
        return text
    return _until_stable(text, _name)


def status(message: str) -> str:
    """The type of the exception that a status message begins with, if it does."""
    found = _LEADING_TYPE.match(message)
    return found[1] if found else ""


def state(text: str) -> str:
    """The entries of a `tracestate` that are numbers of vendors we know."""
    if len(text) > _LONGEST_STATE:
        return ""
    entries = (entry.strip(" \t") for entry in text.split(","))
    return ",".join(entry for entry in entries if _STATE.fullmatch(entry))


def _value(text: str, characters: int) -> str:
    if len(text) > characters:
        return MARK
    return _until_stable(text, _known) if _TELLING.search(text.lower()) else text


def _until_stable(text: str, plain: Callable[[str], str]) -> str:
    """Return what stays as it is: what is cut out of an address may leave another one."""
    while (cut := plain(text)) != text:
        text = cut
    return text


def _known(text: str) -> str:
    if _CONTROL.search(text) or _OBJECT.match(text):
        return MARK
    text = _words(text)
    return MARK if holds_secret(text) else text


def _name(text: str) -> str:
    return _known(text.strip())[:NAME_CHARACTERS]


def _address(text: str) -> str:
    if _DATA.match(text):
        return "data:"
    if not _SCHEME.match(text):
        text = text[_AUTHORITY.match(text)[0].rfind("@") + 1 :]  # type: ignore[index] # matches
    text = re.split("[?#]", _without_users(text), maxsplit=1)[0]
    tells = len(text) > ADDRESS_CHARACTERS or _CONTROL.search(text) or holds_secret(text)
    return MARK if tells else text


def _words(text: str) -> str:
    """A text without the users and passwords in it, up to the first query."""
    text = "".join(map(_without_users, _SPACE.split(text)))
    return text[: min(_query_of_path(text), _first_parameter(text))]


def _query_of_path(text: str) -> int:
    """Return where the first query begins that stands behind a slash."""
    for found in _WORDS.finditer(text):
        slash = text.find("/", found.start(), found.end())
        query = _QUERY.search(text, slash, found.end()) if slash >= 0 else None
        if query:
            return query.start()
    return len(text)


def _first_parameter(text: str) -> int:
    """Return where something like `?token=` begins."""
    for found in _PARAMETER.finditer(text):
        if _QUERY.match(text, found.start()):
            return found.start()
    return len(text)


def _without_users(text: str) -> str:
    """A word without the users of the addresses in it."""
    if "@" not in text:
        return text
    if "//" not in text:
        return "/".join(map(_host_of, text.split("/")))
    done: list[str] = []
    rest = text
    while "//" in rest and "@" in rest:
        scheme, _, following = rest.partition("//")
        rest = following.lstrip("/")
        done += (scheme, "//", "/" * (len(following) - len(rest)))
        authority = _AUTHORITY.match(rest)[0]  # type: ignore[index] # matches anything
        if "@" in authority:
            rest = rest[authority.rindex("@") + 1 :]
        elif "@" in rest and (_NO_PORT.match(authority) or not _WEB.search(scheme)):
            rest = rest.rpartition("@")[2]  # a password may have a slash in it
    return "".join((*done, rest))


def _host_of(text: str) -> str:
    """Return what follows `user:password@`; all of it where there is no such thing."""
    user, _, host = text.rpartition("@")
    return host if host and ":" in re.split("[?#]", user, maxsplit=1)[0] else text
