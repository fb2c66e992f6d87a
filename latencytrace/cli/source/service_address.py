"""Addresses that a user named: checked before anything is sent there."""

from latencytrace.errors import SettingsError
from latencytrace.model.texts.secrets import shown
from latencytrace.service.net.addresses import flaw
from latencytrace.settings import service_url


def service_address(url: str | None) -> str:
    """Return the service's address: the one named, else the usual one.

    Raises:
        SettingsError: It is no address; the message says why.
    """
    return checked("the service's address", (url or service_url()).rstrip("/"))


def checked(what: str, address: str) -> str:
    """Return the same address.

    Raises:
        SettingsError: It is none; the message says what of it is wrong.
    """
    wrong = flaw(address)
    if wrong is not None:
        raise SettingsError(f"{what} {shown(address)!r} {wrong}")
    return address
