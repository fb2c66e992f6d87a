"""Which processes serve, and since when: what they did before is no request."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from latencytrace.analysis.trace.is_request import ENTRY_KINDS
from latencytrace.model import Span

MAX_PROCESSES = 20_000
MAX_PENDING = 256  # traces of one process that may turn out to be its start

Process = tuple[str, str]  # service and instance


def served_by(spans: Iterable[Span]) -> Iterator[tuple[Process, int]]:
    """The processes that served with these spans, as far as they are known, and when."""
    for span in spans:
        if span.kind in ENTRY_KINDS and span.instance is not None:
            yield (span.service, span.instance), span.start_ns


class ProcessStarts:
    """Remembers when processes served first, and what those did that have not served yet.

    Without a `service.instance.id` nothing is said: who served may be another process.

    Args:
        known: Processes of which requests are known: they began long ago.
        most: How many are remembered, those that came last.
    """

    def __init__(self, known: Iterable[Process] = (), most: int = MAX_PROCESSES) -> None:
        self._most = most
        self._first_ns: OrderedDict[Process, int] = OrderedDict.fromkeys(known, 0)
        self._pending: OrderedDict[Process, dict[str, int]] = OrderedDict()

    def served(self, served: Iterable[tuple[Process, int]]) -> list[str]:
        """Note who served, and when; the traces that turn out to be of starting up."""
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
        """Whether a root that nobody called for is of starting up; if unknown yet, not."""
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
