"""How long a process took to start: from its container's start to its first answer."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from opentelemetry.trace import SpanKind

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.native import read_file
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.starting import Starting
from latencytrace.model import semconv
from latencytrace.model.health_paths import is_health_path
from latencytrace.model.stage import Stage

CONTAINER: Final = "container"  # the phases, in order
IMPORTS: Final = "imports"
WEIGHTS: Final = "weights"
WARM_UP: Final = "warm_up"
FIRST_REQUEST: Final = "first_request"

_MOST_LOADS: Final = 1024
_WITH_HOST_NS: Final = 10_000_000_000  # PID 1 that began so soon after the machine is the host's
_WITH_CONTAINER_NS: Final = 300_000_000_000  # a process that began later than that came anew
_SERVED: Final = frozenset({SpanKind.SERVER.value, SpanKind.CONSUMER.value})
_NONE_YET: Final[Mapping[str, int]] = MappingProxyType({})
_STARTED: Final = 19  # field 22 of `/proc/PID/stat`, from the third on

_Extent = tuple[int, int]


class StartPhases:
    """Finds the phases of this process's start in its first spans; used by one thread.

    Args:
        began_ns: When a process began, in monotonic time; None: unknown.
    """

    def __init__(
        self, starting: Callable[[], Starting], began_ns: Callable[[str], int | None] | None = None
    ) -> None:
        self._starting = starting
        self._began_ns = began_ns or process_began_ns
        self._loads: list[_Extent] = []
        self.found: Mapping[str, int] = _NONE_YET  # ns by phase, once a request was served

    def saw(self, spans: Iterable[RecordedSpan]) -> bool:
        """Look at spans that have ended; return whether no more are wanted."""
        for span in spans:
            raw = span.raw_attributes or {}
            if raw.get(semconv.STAGE) == Stage.LOAD.value:
                if len(self._loads) < _MOST_LOADS:
                    self._loads.append((span.started_ns, span.ended_ns))
            elif span.kind_number in _SERVED and not _is_probe(span):
                self.found = self._phases(span.started_ns, span.ended_ns)
                return True
        return False

    def _phases(self, first_ns: int, answered_ns: int) -> Mapping[str, int]:
        began_ns, starting = self._began_ns("self"), self._starting()
        start_up = min(starting.began_ns or first_ns, first_ns), min(starting.ended_ns, first_ns)
        loads = _apart((start_ns, min(end_ns, first_ns)) for start_ns, end_ns in self._loads)
        found = {WEIGHTS: sum(end_ns - start_ns for start_ns, end_ns in loads)}
        if began_ns is not None and began_ns <= start_up[0]:
            found[IMPORTS] = _without(loads, (began_ns, start_up[0]))
            container_ns = self._container_ns(began_ns)
            if container_ns is not None:
                found[CONTAINER] = container_ns
        if starting.began_ns:
            found[WARM_UP] = _without(loads, start_up)
        found[FIRST_REQUEST] = answered_ns - first_ns
        return found

    def _container_ns(self, began_ns: int) -> int | None:
        """How long its container had run before; None: it has none, or the process came anew."""
        machine_ns, first_ns = self._began_ns(""), self._began_ns("1")
        if machine_ns is None or first_ns is None or first_ns - machine_ns < _WITH_HOST_NS:
            return None
        length_ns = max(began_ns - first_ns, 0)
        return length_ns if length_ns <= _WITH_CONTAINER_NS else None


def process_began_ns(process: str) -> int | None:
    """When a process began, in monotonic time, in steps of 10 ms; None: Linux does not tell.

    Args:
        process: A process id, or `self`; empty: the machine.
    """
    try:
        now_ns = monotonic_ns()
        up_ns = round(float(read_file("/proc/uptime").split()[0]) * 1e9)
        if not process:
            return now_ns - up_ns
        # Its name, in brackets, may have any character.
        fields = read_file(f"/proc/{process}/stat").rpartition(b")")[2].split()
        return now_ns - up_ns + int(fields[_STARTED]) * (10**9 // os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return None


def _is_probe(span: RecordedSpan) -> bool:
    method, _, path = span.name.partition(" ")
    return is_health_path(path or span.name, method)


def _apart(extents: Iterable[_Extent]) -> Sequence[_Extent]:
    """Extents that lie apart, of some that may overlap."""
    apart: list[_Extent] = []
    for start_ns, end_ns in sorted(extents):
        since_ns = max(start_ns, apart[-1][1]) if apart else start_ns
        if since_ns < end_ns:
            apart.append((since_ns, end_ns))
    return apart


def _without(some: Iterable[_Extent], whole: _Extent) -> int:
    """How long an extent is without what others, that lie apart, have of it."""
    start_ns, end_ns = whole
    covered = (min(end, end_ns) - max(start, start_ns) for start, end in some)
    return max(end_ns - start_ns - sum(max(length, 0) for length in covered), 0)
