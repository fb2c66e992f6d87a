"""Open files and connections: how many this process may have, and whether it has them all."""

import os
import resource
from typing import Final

MOST_CONNECTIONS: Final = 2048  # of one listener
_FEWEST_CONNECTIONS: Final = 16
_LISTENERS: Final = 3  # two over HTTP, and gRPC, which does not let us bound its connections
_KEPT: Final = 192  # for the store's files and everything else
_WANTED: Final = 16_384
_TIGHT: Final = 16  # with so few left, anything may fail


def raise_limit() -> int:
    """Allow this process as many open files as it may have, within reason.

    Returns:
        The limit from now on.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _WANTED if soft == resource.RLIM_INFINITY else soft


def most_connections(files: int) -> int:
    """Return how many connections one listener may have, where so many files may be open."""
    affordable = (files - _KEPT) // _LISTENERS
    return max(_FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, affordable))


def shortage() -> str | None:
    """Say that there are no more files to open, or hardly any; None: there are."""
    allowed = limit()
    try:
        lowest_free = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return f"no more files or connections can be opened ({error.strerror}): {_ADVICE}"
    os.close(lowest_free)
    if lowest_free < allowed - _TIGHT:
        return None
    return f"of {allowed} files and connections that may be open nearly all are: {_ADVICE}"


_ADVICE = "find out who connects so often, or raise the limit (`ulimit -n`, LimitNOFILE)"
