"""Operators of a profile, as a table: the slowest ones."""

import gzip
import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from latencytrace.errors import ProfileError

_DEVICE: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_OPERATOR: Final = "cpu_op"
_ID: Final = "External id"  # that an operator and what it had a device do share


@dataclass(slots=True)
class Operator:
    """All calls of one operator."""

    name: str
    calls: int = 0
    cpu_us: float = 0.0  # without the operators that it called
    device_us: float = 0.0


def operators(packed: bytes) -> list[Operator]:
    """The operators of a gzipped Chrome trace of torch's, those of most time first.

    Raises:
        ProfileError: The bytes are not such a trace.
    """
    try:
        events = json.loads(gzip.decompress(packed))["traceEvents"]
        return _operators([one for one in events if one.get("ph") == "X"])
    except (
        OSError,
        EOFError,
        zlib.error,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        raise ProfileError(f"the trace cannot be read: {error!r}") from None


def _operators(events: Sequence[dict[str, Any]]) -> list[Operator]:
    found: dict[str, Operator] = {}
    names: dict[object, str] = {}
    threads: defaultdict[object, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event.get("cat") == _OPERATOR:
            threads[event["tid"]].append(event)
            if (external := event.get("args", {}).get(_ID)) is not None:
                names[external] = event["name"]
    for calls in threads.values():
        for name, own_us in _own_times(calls):
            one = found.setdefault(name, Operator(name))
            one.calls += 1
            one.cpu_us += own_us
    for event in events:
        if event.get("cat") in _DEVICE:
            name = names.get(event.get("args", {}).get(_ID), event["name"])
            found.setdefault(name, Operator(name)).device_us += event["dur"]
    return sorted(found.values(), key=lambda one: (-one.device_us, -one.cpu_us))


def _own_times(calls: Iterable[dict[str, Any]]) -> list[tuple[str, float]]:
    """Each call's time but for the calls within it; calls of one thread nest."""
    own: list[tuple[str, float]] = []
    open_calls: list[tuple[float, int]] = []  # end, place in `own`
    for call in sorted(calls, key=lambda one: (one["ts"], -one["dur"])):
        while open_calls and open_calls[-1][0] <= call["ts"]:
            open_calls.pop()
        if open_calls:
            name, time_us = own[open_calls[-1][1]]
            own[open_calls[-1][1]] = name, time_us - call["dur"]
        own.append((call["name"], call["dur"]))
        open_calls.append((call["ts"] + call["dur"], len(own) - 1))
    return own
