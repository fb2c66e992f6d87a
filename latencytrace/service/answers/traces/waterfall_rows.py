"""The lines of a waterfall: spans in the order of a tree, and what is inside them."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Final, NamedTuple

from typing_extensions import ReadOnly, TypedDict

from latencytrace.model import Stage, semconv
from latencytrace.service.answers.documents import SegmentDocument, SpanHeadDocument

LEVEL = 3  # cells of a level of the tree
MOST_LEVELS = 30  # that are drawn; of a deeper tree the levels next to a span
FIRST_HTTP_ERROR = 400
MOST_DIGITS = 9

Stretch = tuple[int, int]
_Inside = dict[tuple[str, str], list[SegmentDocument]]  # by stage and name
_NOTHING: Final[_Inside] = {}  # most spans of a large trace are on no path


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


def rows(request: PathAndSpans) -> Iterator[Row]:
    """Spans in the order of a tree, each followed by the intervals inside it.

    Where a span was not kept, its segments of the critical path take its place.
    """
    path: dict[str, _Inside] = {}  # by span id
    for segment in request["segments"]:
        inside = path.setdefault(segment["span_id"], {})
        inside.setdefault((segment["stage"], named(segment)), []).append(segment)
    for span, depth, tree, below in _tree(request["spans"]):
        inside = path.pop(span["span_id"], _NOTHING)
        own = [key for key in inside if key[0] == span["stage"] and key[1] in {"", span["name"]}]
        notes, failed = _notes(span)
        yield Row(
            depth=depth,
            tree=tree,
            name=span["name"],
            notes=notes,
            failed=failed,
            stage=span["stage"],
            service=span["service"],
            span_id=span["span_id"],
            stretches=((span["start_ns"], span["end_ns"]),),
            on_path=(
                _stretches([segment for key in own for segment in inside.pop(key)]) if own else ()
            ),
        )
        for (stage, name), segments in inside.items():
            stretches = _stretches(segments)
            what = stage if name in {"", span["name"]} else name
            times = f" x{len(stretches)}" if len(stretches) > 1 else ""
            yield Row(
                depth=depth + 1,
                tree=below,
                mark="· ",
                name=f"{what}{times}",
                stage=stage,
                span_id=span["span_id"],
                stretches=stretches,
                on_path=stretches,
            )
    for inside in path.values():
        for (stage, name), segments in inside.items():
            stretches = _stretches(segments)
            yield Row(
                name=name or segments[0]["name"],
                stage=stage,
                span_id=segments[0]["span_id"],
                stretches=stretches,
                on_path=stretches,
            )


def named(segment: SegmentDocument) -> str:
    """The name of a segment of the stage `runtime`, such as event-loop lag; else nothing."""
    return segment["name"] if segment["stage"] == Stage.RUNTIME else ""


def chosen(every: Sequence[Row], most: int) -> Sequence[Row]:
    """Of too many rows those that held the request up longest, and the spans above them."""
    if len(every) <= most:
        return every
    above: list[int] = []  # of each row, the one that it lies below; -1: none
    open_rows: list[int] = []
    for place, row in enumerate(every):
        while open_rows and every[open_rows[-1]].depth >= row.depth:
            open_rows.pop()
        above.append(open_rows[-1] if open_rows else -1)
        open_rows.append(place)
    found: set[int] = set()
    ranked = nsmallest(
        most,
        range(len(every)),
        key=lambda place: (-every[place].path_ns, -every[place].duration_ns),
    )
    for place in ranked:
        at = place
        while at >= 0 and at not in found and len(found) < most:
            found.add(at)
            at = above[at]
    return [every[place] for place in sorted(found)]


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


def _tree(spans: Sequence[SpanHeadDocument]) -> Iterator[tuple[SpanHeadDocument, int, str, str]]:
    """Every span once: its depth, what stands before its name and before what is inside it."""
    known = {span["span_id"] for span in spans}
    children: dict[str | None, list[SpanHeadDocument]] = {}
    for span in sorted(spans, key=lambda span: (span["start_ns"], -span["end_ns"])):
        parent_id = span["parent_id"]
        children.setdefault(parent_id if parent_id in known else None, []).append(span)
    stack = [(span, 0, "", "") for span in reversed(children.get(None, []))]
    while stack:
        span, depth, tree, indent = stack.pop()
        below = children.get(span["span_id"], [])
        yield span, depth, tree, _last(indent + ("│  " if below else "   "))
        last = len(below) - 1
        for place in range(last, -1, -1):
            branch, deeper = ("└─ ", "   ") if place == last else ("├─ ", "│  ")
            levels = (_last(indent + branch), _last(indent + deeper))
            stack.append((below[place], depth + 1, *levels))


def _last(levels: str) -> str:
    """Those that are drawn: whole, the strings of a deep tree would be as long as it is deep."""
    return levels[-LEVEL * MOST_LEVELS :]


def _length_ns(stretches: Sequence[Stretch]) -> int:
    if len(stretches) == 1:  # as most rows have
        return stretches[0][1] - stretches[0][0]
    return sum(end - start for start, end in stretches)


def _stretches(segments: Sequence[SegmentDocument]) -> list[Stretch]:
    return [(segment["start_ns"], segment["end_ns"]) for segment in segments]
