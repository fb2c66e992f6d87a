"""The lines of a waterfall: spans in the order of a tree, and what is inside them."""

import gc
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ContextDecorator
from heapq import nlargest
from typing import Final, NamedTuple, overload

from typing_extensions import ReadOnly, TypedDict

from latencytrace.analysis.trace.routes import call_name
from latencytrace.model import Stage, semconv
from latencytrace.service.answers.documents import SegmentDocument, SpanHeadDocument

LEVEL = 3  # cells of a level of the tree
MOST_LEVELS = 30  # that are drawn; of a deeper tree the levels next to a span
FIRST_HTTP_ERROR = 400
MOST_DIGITS = 9
MARK = "· "  # before the name of what is inside a span

Stretch = tuple[int, int]
_Inside = dict[tuple[str, str], list[SegmentDocument]]  # by stage and name
_Levels = tuple["_Levels", bool] | None  # those of the row above; whether it is the last below it
# Its name, stage, service and span, when it began and ended, its depth.
_Line = tuple[str, str, str, str, int, int, int, _Levels]
_DEPTH: Final = 6
_TOLD: Final = frozenset(  # attributes that notes are made of
    {
        semconv.HTTP_REQUEST_RESEND_COUNT,
        semconv.HTTP_RESPONSE_STATUS_CODE,
        semconv.HTTP_STATUS_CODE_OLD,
    }
)


class Row(NamedTuple):
    """A line of the waterfall: a span, or one stage of the intervals inside it."""

    name: str
    stage: str
    span_id: str  # of the span, or of that which it is inside of
    stretches: Sequence[Stretch]  # when it ran
    on_path: Sequence[Stretch]  # when the request waited for just this
    depth: int = 0  # levels above it
    tree: str = ""  # what stands before the name: `│  └─ `
    mark: str = ""  # `· ` of what is inside a span
    notes: Sequence[str] = ()  # such as the type of its exception
    failed: bool = False
    service: str = ""  # of the span; none is known of what is inside one

    @property
    def duration_ns(self) -> int:
        """The time that it ran."""
        return _length_ns(self.stretches)

    @property
    def path_ns(self) -> int:
        """The time that the request waited for it."""
        return _length_ns(self.on_path)


class PathAndSpans(TypedDict):
    """The part of a request that its waterfall is made of; the spans are in any order."""

    segments: ReadOnly[Sequence[SegmentDocument]]  # of the critical path
    spans: ReadOnly[Sequence[SpanHeadDocument]]


class Rows(Sequence[Row]):
    """The rows of a waterfall, each made when it is asked for: of many, few are drawn."""

    def __init__(self) -> None:
        self.lines: list[_Line] = []
        self.parts: dict[int, Sequence[Stretch]] = {}  # of rows that did not run just once
        self.paths: dict[int, Sequence[Stretch]] = {}  # of rows that held the request up
        self.notes: dict[int, Sequence[str]] = {}
        self.failed: set[int] = set()
        self.inside: set[int] = set()  # rows of what is inside a span

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if isinstance(place, slice):
            return list(map(self._row, range(len(self))[place]))
        return self._row(range(len(self))[place])

    def _row(self, place: int) -> Row:
        name, stage, service, span_id, start_ns, end_ns, depth, levels = self.lines[place]
        is_inside = place in self.inside
        return Row(
            name=name,
            stage=stage,
            span_id=span_id,
            stretches=self.parts.get(place) or ((start_ns, end_ns),),
            on_path=self.paths.get(place, ()),
            depth=depth,
            tree=_drawn(levels, is_inside=is_inside),
            mark=MARK if is_inside else "",
            notes=self.notes.get(place, ()),
            failed=place in self.failed,
            service=service,
        )

    def lengths_ns(self) -> list[int]:
        """How long each ran."""
        lengths_ns = [end_ns - start_ns for _, _, _, _, start_ns, end_ns, _, _ in self.lines]
        return self._lengths_ns(self.parts, lengths_ns)

    def held_ns(self) -> list[int]:
        """How long the request waited for just each."""
        return self._lengths_ns(self.paths, [0] * len(self))

    @staticmethod
    def _lengths_ns(known: Mapping[int, Sequence[Stretch]], others: list[int]) -> list[int]:
        for place, stretches in known.items():
            others[place] = _length_ns(stretches)
        return others

    @property
    def stages(self) -> set[str]:
        """The stages of the rows."""
        return {stage for _, stage, *_ in self.lines}

    def add_span(self, span: SpanHeadDocument, depth: int, levels: _Levels) -> None:
        """Add a span, which is on no path yet."""
        if (
            span["status"] == "error"
            or span.get("error_type")
            or not _TOLD.isdisjoint(span["attributes"])
        ):
            notes, failed = _notes(span)
            if notes:
                self.notes[len(self.lines)] = notes
            if failed:
                self.failed.add(len(self.lines))
        self.lines.append(
            (
                call_name(span["name"], span["attributes"]),
                span["stage"],
                span["service"],
                span["span_id"],
                span["start_ns"],
                span["end_ns"],
                depth,
                levels,
            )
        )

    def add_path(
        self, segments: Sequence[SegmentDocument], name: str, depth: int, levels: _Levels
    ) -> None:
        """Add what is known by its part of the critical path alone."""
        place, first = len(self.lines), segments[0]
        self.parts[place] = self.paths[place] = stretches = _stretches(segments)
        began_ns, ended_ns = stretches[0][0], stretches[-1][1]
        self.lines.append(
            (name, first["stage"], "", first["span_id"], began_ns, ended_ns, depth, levels)
        )


def rows(request: PathAndSpans) -> Rows:
    """Spans in the order of a tree, each followed by the intervals inside it.

    Where a span was not kept, its segments of the critical path take its place.
    """
    found = Rows()
    path = _by_span(request["segments"])
    for span, depth, levels, has_children in _tree(request["spans"]):
        found.add_span(span, depth, levels)
        inside = path.pop(span["span_id"], None)
        if not inside:  # most spans of a large trace are on no path
            continue
        if len(inside) == 1 and (span["stage"], "") in inside:  # as usual
            found.paths[len(found.lines) - 1] = _stretches(inside[span["stage"], ""])
            continue
        own = [key for key in inside if key[0] == span["stage"] and key[1] in {"", span["name"]}]
        if own:
            on_path = [segment for key in own for segment in inside.pop(key)]
            found.paths[len(found) - 1] = _stretches(on_path)
        for (stage, name), segments in inside.items():
            what = stage if name in {"", span["name"]} else name
            times = f" x{len(segments)}" if len(segments) > 1 else ""
            found.inside.add(len(found))
            found.add_path(segments, f"{what}{times}", depth + 1, (levels, has_children))
    for inside in path.values():
        for (_, name), segments in inside.items():
            found.add_path(segments, name or segments[0]["name"], 0, None)
    return found


def _by_span(segments: Sequence[SegmentDocument]) -> dict[str, _Inside]:
    """Segments by the span that they belong to, in each by stage and name."""
    path: dict[str, _Inside] = {}
    for segment in segments:
        inside = path.setdefault(segment["span_id"], {})
        inside.setdefault((segment["stage"], named(segment)), []).append(segment)
    return path


def named(segment: SegmentDocument) -> str:
    """The name of a segment of the stage `runtime`, such as event-loop lag; else nothing."""
    return segment["name"] if segment["stage"] == Stage.RUNTIME else ""


def chosen(every: Rows, most: int) -> Sequence[int]:
    """Places of the rows that held the request up longest, and of the rows above them.

    A row that is chosen has all those above it chosen, as far as there is room.
    """
    if len(every) <= most:
        return range(len(every))
    above: list[int] = []  # of each row, the one that it lies below; -1: none
    open_rows: list[int] = []
    depths = [line[_DEPTH] for line in every.lines]
    for place, depth in enumerate(depths):
        while open_rows and depths[open_rows[-1]] >= depth:
            open_rows.pop()
        above.append(open_rows[-1] if open_rows else -1)
        open_rows.append(place)
    found: set[int] = set()
    earlier_first = range(0, -len(every), -1)
    ranked = nlargest(most, zip(every.held_ns(), every.lengths_ns(), earlier_first, strict=True))
    for _, _, place in ranked:
        at = -place
        while at >= 0 and at not in found and len(found) < most:
            found.add(at)
            at = above[at]
    return sorted(found)


def _notes(span: SpanHeadDocument) -> tuple[list[str], bool]:
    """Name what went wrong: an HTTP status, how often it was sent again, an exception's type."""
    attributes = span["attributes"]
    resent = _number(attributes, semconv.HTTP_REQUEST_RESEND_COUNT)
    code = _number(attributes, semconv.HTTP_RESPONSE_STATUS_CODE, semconv.HTTP_STATUS_CODE_OLD)
    notes = []
    if code and (code >= FIRST_HTTP_ERROR or resent or span["stage"] == Stage.RETRY):
        notes.append(str(code))
    if resent:
        notes.append(f"resend {resent}")
    error_type = span.get("error_type")  # an older service does not know it
    if error_type and error_type != str(code):
        notes.append(error_type.rpartition(".")[2] or error_type)
    failed = span["status"] == "error" or bool(code and code >= FIRST_HTTP_ERROR)
    if failed and not notes:
        notes.append("error")
    return notes, failed or bool(error_type)


def _number(attributes: Mapping[str, object], *keys: str) -> int | None:
    """The first of these that is a whole number, or the text of one."""
    for key in keys:
        if key not in attributes:
            continue
        value = attributes[key]
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if (
            isinstance(value, str)
            and value.isascii()
            and value.isdigit()
            and len(value) <= MOST_DIGITS
        ):
            return int(value)
    return None


def _tree(
    spans: Sequence[SpanHeadDocument],
) -> Iterator[tuple[SpanHeadDocument, int, _Levels, bool]]:
    """Every span once: its depth, its place among those above, whether any are below it."""
    known = {span["span_id"] for span in spans}
    children: dict[str | None, list[SpanHeadDocument]] = {}
    for span in sorted(spans, key=_begin):
        parent_id = span["parent_id"]
        children.setdefault(parent_id if parent_id in known else None, []).append(span)
    stack: list[tuple[SpanHeadDocument, int, _Levels]] = [
        (span, 0, None) for span in reversed(children.get(None, []))
    ]
    while stack:
        span, depth, levels = stack.pop()
        below = children.get(span["span_id"], ())
        yield span, depth, levels, bool(below)
        is_last = True
        for child in reversed(below):
            stack.append((child, depth + 1, (levels, is_last)))
            is_last = False


def _begin(span: SpanHeadDocument) -> tuple[int, int, str]:
    return span["start_ns"], -span["end_ns"], span["span_id"]


def _drawn(levels: _Levels, *, is_inside: bool) -> str:
    """The lines before a name; of a deep tree those of the levels next to it."""
    if levels is None:
        return ""
    at, flag = levels
    inside, branch = ("│  " if flag else "   "), ("└─ " if flag else "├─ ")
    texts = [inside if is_inside else branch]
    while at is not None and len(texts) < MOST_LEVELS:
        at, flag = at
        texts.append("   " if flag else "│  ")
    return "".join(reversed(texts))


def _length_ns(stretches: Sequence[Stretch]) -> int:
    if len(stretches) == 1:  # as most rows have
        return stretches[0][1] - stretches[0][0]
    return sum(end - start for start, end in stretches)


def _stretches(segments: Sequence[SegmentDocument]) -> list[Stretch]:
    return [(segment["start_ns"], segment["end_ns"]) for segment in segments]


_LONGEST_S: Final = 5.0  # without looking for cycles


class CollectionPause(ContextDecorator):
    """Keeps Python from looking for cycles meanwhile.

    A trace of 50 000 spans is read as a million objects, none of which is in a cycle: the
    collector, woken by their number alone, would look through them again and again, for more than
    a third of the time. Several threads may be inside at once; what they leave is collected after
    the last one, and every few seconds where they follow each other without end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_enabled = False
        self._since_s = 0.0

    def __enter__(self) -> None:
        """Begin one."""
        with self._lock:
            if not self._inside:
                self._was_enabled = gc.isenabled()
                gc.disable()
                self._since_s = time.monotonic()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        """End it."""
        is_long = False
        with self._lock:
            self._inside -= 1
            if not self._was_enabled:
                return
            if not self._inside:
                gc.enable()
            elif time.monotonic() - self._since_s > _LONGEST_S:
                is_long, self._since_s = True, time.monotonic()
        if is_long:
            gc.collect()


collection_pause: Final = CollectionPause()
