"""When a request that is read now came to its socket: Linux knows it, and a held thread cannot."""

import platform
import re
import socket
import struct
import sys
import time
from contextlib import suppress
from functools import wraps
from typing import Any, Final
from weakref import WeakKeyDictionary

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import current
from latencytrace.agent.timing.holds import NOTICED_NS
from latencytrace.agent.timing.hook import Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import REQUEST, OpenRequests

ARRIVED: Final = "latencytrace.arrived_ns"  # in a scope: a monotonic time, noted by its server
_NS_PER_MS: Final = 1_000_000
# None: not Linux; others have a call of that name that says other things.
_TCP_INFO: Final = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_LAST_DATA_RECEIVED: Final = 52  # where `tcpi_last_data_recv` is: milliseconds, 32 bits
_BYTES: Final = _LAST_DATA_RECEIVED + 4
_COARSE: Final = 6  # CLOCK_MONOTONIC_COARSE, which steps with the clock that those are counted by
# What came one step ago by that clock may have come just now,
STEP_NS: Final = 0 if _TCP_INFO is None else round(time.clock_getres(_COARSE) * 1e9)
# unless it is known when that steps: at whole multiples since Linux 6.4.
_KERNEL: Final = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
_IS_ALIGNED: Final = _TCP_INFO is not None and _KERNEL >= (6, 4)
_MOST_UNEXPLAINED_NS: Final = 1_000_000_000  # that bytes may lie there for no reason known
_answered: Final = WeakKeyDictionary[Any, int]()  # by connection


def reads_requests(recorder: Recorder, original: Timed) -> Timed:
    """Have event loops timed from here on: a server takes up a connection.

    What uvloop was given before is not timed, and so would not be the first request's steps.
    """
    requests = recorder.open_requests

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        requests.serves = True
        return original(*args, **kwargs)

    return call


def arrived_ns(requests: OpenRequests, connection: Any, *, is_handed_on: bool = False) -> int:
    """Return when the last bytes came that a server reads now from a connection.

    The kernel is asked only where a thread was held until just before, or waited for a processor
    (0.7 us, in steps of its clock: 4 ms on most machines).

    Args:
        requests: Those under way, with what held their threads.
        connection: The one that bytes are read from; None: unknown.
        is_handed_on: Another thread accepts or watches it, and may have been late itself: the
            kernel is believed although nothing held this one.

    Returns:
        A monotonic time while the thread was held; now, where they may have come later or the
        kernel does not say, as of a Unix socket. So it is within another request, for what was
        read before, behind that on its connection; and not before that was `answered`.
    """
    now_ns, holds, processor = monotonic_ns(), requests.holds, requests.processor
    if now_ns >= holds.followed_by_ns and now_ns >= processor.likely_by_ns:
        return now_ns
    unread_ns = None if current().get(REQUEST) is not None else _unread_ns(connection)
    if not unread_ns:  # unknown, or just now
        return now_ns
    # A thread that nothing holds reads at once, unless it waits for a processor.
    waited_ns = min(processor.waited_since(now_ns - unread_ns)[1], unread_ns)
    holds.note(now_ns - waited_ns, now_ns, "", waited_ns=waited_ns)
    held = holds.lately(now_ns)
    came_ns, latest_ns = _came_ns(now_ns, unread_ns)
    before_ns = _answered_ns(connection)
    came_ns, latest_ns = max(came_ns, before_ns), max(latest_ns, before_ns)
    have_lain = now_ns - came_ns <= _MOST_UNEXPLAINED_NS and now_ns - latest_ns >= NOTICED_NS
    if is_handed_on and have_lain:
        holds.note(came_ns, now_ns, "")  # another thread or another program held it up
        return came_ns
    if held is None or latest_ns >= held[1]:
        return now_ns
    return max(came_ns, held[0])


def _came_ns(now_ns: int, unread_ns: int) -> tuple[int, int]:
    """Return when bytes came that lay unread for so many steps: as is likely, and at the latest.

    They came between two steps. Without knowing when the clock steps, half of what is possible
    is left out.
    """
    if not _IS_ALIGNED:
        return now_ns - unread_ns, now_ns - unread_ns + STEP_NS
    latest_ns = now_ns - now_ns % STEP_NS - unread_ns + STEP_NS
    return latest_ns - STEP_NS // 2, latest_ns


def answered(connection: Any) -> None:
    """Note that a request was answered: what its client sent before waited for that answer."""
    with suppress(TypeError):  # it cannot be referred to weakly
        _answered[connection] = monotonic_ns()


def _answered_ns(connection: Any) -> int:
    try:
        return _answered.get(connection, 0)
    except TypeError:
        return 0


def _unread_ns(connection: Any) -> int | None:
    """Return how long ago the last bytes came; None: the kernel does not say."""
    if _TCP_INFO is None:
        return None
    try:
        if not hasattr(connection, "getsockopt"):
            connection = connection.get_extra_info("socket")
        reported = connection.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _BYTES)
    except (AttributeError, OSError, TypeError, ValueError):  # no socket of TCP, or none at all
        return None
    if len(reported) < _BYTES:
        return None
    (age_ms,) = struct.unpack_from("=I", reported, _LAST_DATA_RECEIVED)
    return int(age_ms) * _NS_PER_MS
