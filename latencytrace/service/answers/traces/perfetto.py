"""One request as a trace of Chrome's format, which Perfetto opens.

Source: "Trace Event Format" (Chromium). On a track (a thread of a process) slices must nest:
spans that overlap their neighbours lie on further tracks. Times are microseconds, counted from
the earliest span, since in absolute ones a double cannot hold nanoseconds.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from latencytrace.service.answers.documents import RequestDocument, SpanDocument

PATH_PROCESS: Final = 1  # the critical path comes first, processes of spans after it
MOST_TRACKS: Final = 200  # looked through for a free one

_US: Final = 1000  # nanoseconds

Event = dict[str, object]


def perfetto_trace(request: RequestDocument) -> dict[str, object]:
    """A JSON object of the trace event format.

    The critical path is a process of its own, its slices named by stage. Each instance of a
    service is a process with its spans; arrows lead to spans called in another process, and
    from spans that links name.
    """
    spans = _parents_first(request["spans"])
    earliest_ns = min([0, *(span["start_ns"] for span in spans)])
    layout = _Layout(spans)
    events = [*_path(request, earliest_ns), *_names(layout)]
    events += [_slice(layout, span, earliest_ns) for span in spans]
    events += _arrows(layout, spans, earliest_ns)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "trace_id": request["trace_id"],
            "service": request["service"],
            "route": request["route"],
            "status": request["status"],
            "start_unix_ns": request["start"],
            "duration_ns": request["duration_ns"],
            "ledger_ns": request["ledger"],
        },
    }


def microseconds(ns: int) -> float:
    """A time as the format has it, the same where a reader cuts off after a nanosecond."""
    value = ns / _US
    while int(value * _US) < ns:
        value = math.nextafter(value, math.inf)
    return value


@dataclass(slots=True)
class _Track:
    """Slices that nest, in order of start."""

    process: int
    number: int
    open: list[SpanDocument] = field(default_factory=list)  # each within the one before it

    def takes(self, span: SpanDocument) -> bool:
        """Tell whether a span that starts no earlier than all before it nests here."""
        while self.open and self.open[-1]["end_ns"] <= span["start_ns"]:
            self.open.pop()
        return not self.open or self.open[-1]["end_ns"] >= span["end_ns"]


class _Layout:
    """Choose the track of each span.

    Args:
        spans: In order of start, longer ones first, parents before children.
    """

    def __init__(self, spans: Sequence[SpanDocument]) -> None:
        self.processes: dict[tuple[str, str | None], int] = {}
        self.tracks: dict[str, _Track] = {}  # by span id
        self.inside: dict[str, list[SpanDocument]] = defaultdict(list)  # directly, on its track
        self._of_process: dict[int, list[_Track]] = defaultdict(list)
        for span in spans:
            self._place(span)

    def is_innermost(self, span: SpanDocument, at_ns: int) -> bool:
        """Tell whether an arrow at this time of a span's track belongs to the span itself."""
        if not span["start_ns"] <= at_ns < span["end_ns"]:
            return False
        inside = self.inside[span["span_id"]]
        before = bisect_right(inside, at_ns, key=lambda inner: inner["start_ns"])
        return not before or inside[before - 1]["end_ns"] <= at_ns

    def _place(self, span: SpanDocument) -> None:
        name = (span["service"], span["instance"])
        process = self.processes.setdefault(name, PATH_PROCESS + 1 + len(self.processes))
        track = next(
            (track for track in self._candidates(process, span) if track.takes(span)), None
        )
        if track is None:
            tracks = self._of_process[process]
            track = _Track(process, len(tracks) + 1)
            tracks.append(track)
        if track.open:
            self.inside[track.open[-1]["span_id"]].append(span)
        track.open.append(span)
        self.tracks[span["span_id"]] = track

    def _candidates(self, process: int, span: SpanDocument) -> Iterator[_Track]:
        beside = self.tracks.get(span["parent_id"] or "")
        if beside is not None and beside.process == process:
            yield beside
        yield from self._of_process[process][:MOST_TRACKS]


def _parents_first(spans: Sequence[SpanDocument]) -> list[SpanDocument]:
    """Spans in order of start; of those with the same times, parents before children."""
    by_id = {span["span_id"]: span for span in spans}
    depths: dict[str, int] = {}
    for span in spans:
        above = []
        current: SpanDocument | None = span
        while current is not None and current["span_id"] not in depths:
            above.append(current["span_id"])
            depths[current["span_id"]] = 0  # ends a circle
            current = by_id.get(current["parent_id"] or "")
        depth = -1 if current is None else depths[current["span_id"]]
        for span_id in reversed(above):
            depth += 1
            depths[span_id] = depth
    return sorted(
        spans, key=lambda span: (span["start_ns"], -span["end_ns"], depths[span["span_id"]])
    )


def _path(request: RequestDocument, earliest_ns: int) -> Iterator[Event]:
    yield _name("process_name", PATH_PROCESS, 0, f"critical path of {request['route']}")
    yield _sorted_at(PATH_PROCESS)
    yield _name("thread_name", PATH_PROCESS, 1, "stages")
    for segment in request["segments"]:
        yield {
            "ph": "X",
            "name": segment["stage"],
            "cat": "critical_path",
            "pid": PATH_PROCESS,
            "tid": 1,
            "ts": microseconds(segment["start_ns"] - earliest_ns),
            "dur": microseconds(segment["end_ns"] - segment["start_ns"]),
            "args": {"span": segment["name"], "span_id": segment["span_id"]},
        }


def _names(layout: _Layout) -> Iterator[Event]:
    for (service, instance), process in layout.processes.items():
        title = service if instance is None else f"{service} · {instance}"
        yield _name("process_name", process, 0, title)
        yield _sorted_at(process)
    tracks = {(track.process, track.number) for track in layout.tracks.values()}
    for process, number in sorted(tracks):
        yield _name("thread_name", process, number, f"spans {number}")


def _name(kind: str, process: int, track: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "args": {"name": name}}


def _sorted_at(process: int) -> Event:
    return {
        "ph": "M",
        "name": "process_sort_index",
        "pid": process,
        "tid": 0,
        "args": {"sort_index": process},
    }


def _slice(layout: _Layout, span: SpanDocument, earliest_ns: int) -> Event:
    track = layout.tracks[span["span_id"]]
    known = {
        "span_id": span["span_id"],
        "parent_id": span["parent_id"],
        "stage": span["stage"],
        "status": span["status"],
    }
    return {
        "ph": "X",
        "name": span["name"],
        "cat": span["stage"],
        "pid": track.process,
        "tid": track.number,
        "ts": microseconds(span["start_ns"] - earliest_ns),
        "dur": microseconds(span["end_ns"] - span["start_ns"]),
        "args": {**span["attributes"], **known},
    }


def _arrows(layout: _Layout, spans: Sequence[SpanDocument], earliest_ns: int) -> Iterator[Event]:
    by_id = {span["span_id"]: span for span in spans}
    for source, target, kind in _edges(by_id):
        at_ns = target["start_ns"] if kind == "call" else source["start_ns"]
        # An arrow belongs to the innermost slice at its time: better none than a wrong one.
        if not (
            layout.is_innermost(source, at_ns) and layout.is_innermost(target, target["start_ns"])
        ):
            continue
        same = {"cat": kind, "name": kind, "id": f"{source['span_id']}-{target['span_id']}"}
        for phase, span, time_ns in (("s", source, at_ns), ("f", target, target["start_ns"])):
            track = layout.tracks[span["span_id"]]
            ends: Mapping[str, object] = {"bp": "e"} if phase == "f" else {}
            yield {
                **same,
                "ph": phase,
                "pid": track.process,
                "tid": track.number,
                "ts": microseconds(time_ns - earliest_ns),
                **ends,
            }


def _edges(
    by_id: Mapping[str, SpanDocument],
) -> Iterator[tuple[SpanDocument, SpanDocument, str]]:
    """Arrows from one process to another, and of links; never back in time."""
    for span in by_id.values():
        parent = by_id.get(span["parent_id"] or "")
        if parent is not None and _process(parent) != _process(span):
            yield parent, span, "call"
        for link in span["links"]:
            linked = by_id.get(link["span_id"])
            if linked is not None and linked["start_ns"] <= span["start_ns"]:
                yield linked, span, "link"


def _process(span: SpanDocument) -> tuple[str, str | None]:
    return span["service"], span["instance"]
