"""Checks whether an address can be asked or posted to."""

from urllib.parse import SplitResult, urlsplit


def flaw(address: str) -> str | None:
    """Return why an address cannot be used; None: it can.

    Nothing of the address itself is said: a password may stand in it.
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return "has brackets without an IPv6 address"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "does not begin with http:// or https:// and a host"
    if not _has_a_port(parts):
        return (
            "has a port that is no number from 1 to 65535 (in a password, / is %2F and : is %3A)"
        )
    if not _is_a_name(parts.hostname):
        return "has a host that can be no name: a part of it is empty, too long or has a space"
    if not all("!" <= sign <= "~" for sign in f"{parts.path}{parts.query}"):
        return "has a space or sign in its path that must be written as %20 and the like"
    return None


def _has_a_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _is_a_name(host: str) -> bool:
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return host.isprintable() and " " not in host
