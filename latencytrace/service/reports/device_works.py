"""Work of spans on GPUs of late, held for the join with the GPUs' counters."""

from collections.abc import Iterable, Sequence
from typing import Final

from latencytrace.analysis.gpu.device_work import device_work
from latencytrace.model import Span
from latencytrace.model.gpu import DeviceWork

MAX_WORKS: Final = 50_000
KEPT_NS: Final = 3_600_000_000_000  # as long as the windows of the GPUs


class DeviceWorks:
    """Holds each piece of work once, the newest `MAX_WORKS` of the last hour."""

    def __init__(self) -> None:
        self._works: dict[tuple[str, str], DeviceWork] = {}  # in order of arrival

    def add(self, spans: Iterable[Span]) -> None:
        """Note the spans among these that had a GPU do something."""
        for span in spans:
            work = device_work(span)
            if work is not None:
                self._works.pop((work.trace_id, work.span_id), None)
                self._works[work.trace_id, work.span_id] = work
        while len(self._works) > MAX_WORKS:
            self._works.pop(next(iter(self._works)), None)

    def gpus(self) -> list[str]:
        return sorted({work.gpu for work in list(self._works.values())})

    def on(self, gpu: str) -> Sequence[DeviceWork]:
        """The work on one GPU, of the hour before its last."""
        works = [work for work in list(self._works.values()) if work.gpu == gpu]
        latest_ns = max((work.end_ns for work in works), default=0)
        return [work for work in works if work.end_ns > latest_ns - KEPT_NS]
