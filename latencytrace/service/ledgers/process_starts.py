"""When each process began to serve: what it did before is startup, not a request."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from latencytrace.analysis.trace.is_request import ENTRY_KINDS
from latencytrace.model import Span

MAX_PROCESSES = 20_000
MAX_PENDING = 256  # traces of one process that may turn out to be startup

Process = tuple[str, str]  # service and instance


def served_by(spans: Iterable[Span]) -> Iterator[tuple[Process, int]]:
    """Yield the processes that served requests with these spans, and when (ns)."""
    for span in spans:
        if span.kind in ENTRY_KINDS and span.instance is not None:
            yield (span.service, span.instance), span.start_ns


class ProcessStarts:
    """Remembers when each process served its first request, and traces of processes that have not.

    Spans without `service.instance.id` are ignored, because they may be of any process.

    Args:
        known: Processes that have served already.
        most: How many processes are remembered; the oldest are forgotten.
    """

    def __init__(self, known: Iterable[Process] = (), most: int = MAX_PROCESSES) -> None:
        self._most = most
        self._first_ns: OrderedDict[Process, int] = OrderedDict.fromkeys(known, 0)
        self._pending: OrderedDict[Process, dict[str, int]] = OrderedDict()

    def served(self, served: Iterable[tuple[Process, int]]) -> list[str]:
        """Note processes that served, and when; return traces that turn out to be startup."""
        found: list[str] = []
        for process, start_ns in served:
            known_ns = self._first_ns.get(process)
            if known_ns is None or start_ns < known_ns:
                self._first_ns[process] = start_ns
                pending = self._pending.pop(process, {})
                found += [one for one, at_ns in pending.items() if at_ns < start_ns]
        while len(self._first_ns) > self._most:
            self._first_ns.popitem(last=False)
        return found

    def is_start(self, root: Span) -> bool:
        """Return whether a root without a caller is startup; False while that is unknown."""
        if root.instance is None:
            return False
        process = (root.service, root.instance)
        first_ns = self._first_ns.get(process)
        if first_ns is not None:
            return root.start_ns < first_ns
        pending = self._pending.setdefault(process, {})
        if len(pending) < MAX_PENDING:
            pending[root.trace_id] = root.start_ns
        while len(self._pending) > self._most:
            self._pending.popitem(last=False)
        return False
