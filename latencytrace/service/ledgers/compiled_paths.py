"""Compiles the critical path's kernels in the background; the plain path serves until then."""

import logging
import threading
from collections.abc import Sequence

from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.ledger.kernels import PLAIN, Kernels, critical_paths
from latencytrace.model import Segment, Trace
from latencytrace.model.span_columns import SpanColumns

_log = logging.getLogger(__name__)

WORTH_COMPILING_SPANS = 200_000  # compiling takes seconds and memory, and saves 1 µs a span
WORTH_COLUMNS_SPANS = 200  # in one call


class CriticalPaths:
    """The critical path of many requests at once, by the fastest way there is.

    Nobody waits for the compiler: it starts once so many spans have been divided that it
    pays, and keeps its work on disk for the next start.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._kernels: Kernels | None = None
        self._compiling: threading.Thread | None = None

    def __call__(self, traces: Sequence[Trace]) -> list[tuple[Segment, ...]]:
        """What `analysis.ledger.critical_path.critical_path` gives for each of these traces."""
        spans = sum(len(trace.spans) for trace in traces)
        self._seen += spans
        if self._seen >= WORTH_COMPILING_SPANS:
            self.compile()
        if self._kernels is None or spans < WORTH_COLUMNS_SPANS:
            return [critical_path(trace) for trace in traces]
        return critical_paths(SpanColumns.of(traces), self._kernels)

    @property
    def is_compiled(self) -> bool:
        """Whether the kernels are ready."""
        return self._kernels is not None

    def compile(self) -> threading.Thread:
        """Begin to compile, if nobody has, and return at once."""
        if self._compiling is None:
            self._compiling = threading.Thread(
                target=self._compile, name="latencytrace-compile", daemon=True
            )
            self._compiling.start()
        return self._compiling

    def _compile(self) -> None:
        try:
            import numba  # noqa: PLC0415 - half a second, and only under load
        except ImportError as error:
            _log.info("the plain critical path is used, for numba cannot be imported: %s", error)
            return
        kernels = Kernels(*(numba.njit(kernel, nogil=True, cache=True) for kernel in PLAIN))
        critical_paths(SpanColumns.of(()), kernels)
        self._kernels = kernels
        _log.info("the critical path is compiled")
