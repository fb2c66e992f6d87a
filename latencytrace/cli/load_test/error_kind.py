"""Errors of requests in few words, so that they can be counted."""

import ssl

import aiohttp

_ERROR_KINDS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((aiohttp.ClientConnectorDNSError,), "host not found"),
    ((aiohttp.ClientSSLError, ssl.SSLError), "tls"),
    ((aiohttp.ClientConnectorError,), "cannot connect"),
    ((aiohttp.ClientPayloadError,), "answer cut off"),
    ((TimeoutError,), "timeout"),
    ((aiohttp.ServerDisconnectedError, ConnectionError), "connection closed"),
    ((aiohttp.ClientResponseError,), "not HTTP"),
)


def error_kind(error: Exception) -> str:
    """Name what went wrong in few words: the first row that fits."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, ConnectionRefusedError
    ):
        return "connection refused"
    return next(
        (kind for types, kind in _ERROR_KINDS if isinstance(error, types)), type(error).__name__
    )
