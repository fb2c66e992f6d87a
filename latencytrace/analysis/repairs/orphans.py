"""Finds a place for spans whose parent never arrived."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from latencytrace.analysis.trace.error_types import http_code
from latencytrace.analysis.trace.is_request import is_entry, is_request
from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.model import Repair, RepairKind, Span, SpanKind, StatusCode, semconv
from latencytrace.model.texts.escaped import named

MAX_LOOKS = 200_000  # at spans around orphans, in one trace; beyond, they go below a request

MAX_REQUESTS = 1_000  # side by side, that an orphan may be a part of

_MOST_OF_IT = 0.9

_Process = tuple[str, str | None]
_SERVED: _Process = ("", "by a server span")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """Spans that form trees."""

    spans: dict[str, Span]  # by span id, the parent of each among them or None
    repairs: list[Repair]
    apart: bool = False  # clocks that no other pair of parent and child compares meet in them


def adopt_orphans(
    spans: Mapping[str, Span], cut: Collection[str], *, rootless: bool = False
) -> Adopted:
    """Hang every orphan where it most plausibly ran; those of one lost parent together.

    That is below the innermost span that ran around them: of their own process first, else
    a call of another service that nothing else has answered; server and consumer spans go
    below a span of another service, since that is their caller. Where nothing ran around
    them, but their clock is compared with no other and a single unanswered call is
    long enough, they go below that; else below a request: the last to start of those that ran
    when the orphan started, else the last to start before it, else the first.

    Where the trace has no root, its caller is not traced: then orphaned server and
    consumer spans are requests of their own, which is no repair. Without any request
    the other orphans wait for theirs.

    Args:
        spans: By span id.
        cut: Spans that must not keep their parent: it would close a cycle.
        rootless: The root will not come any more. Where there is no request then, server and
            consumer spans below orphans are, which is noted; the spans above those are left out.

    Returns:
        Spans by id, the parent of each among them or None. What has no way to a request is
        left out.
    """
    roots, orphans = _parentless(spans, cut)
    children = _children(spans.values(), cut)
    if not orphans:
        return Adopted(spans=_reached(roots, children), repairs=[])
    repairs: list[Repair] = []
    if not any(is_request(root, None) for root in roots):
        entries = [orphan for orphan in orphans if is_entry(orphan)]
        orphans = [orphan for orphan in orphans if not is_entry(orphan)]
        if rootless and not entries:
            entries = list(_outermost(orphans, children))
            around = {span.parent_id for span in entries}
            orphans = [one for one in orphans if not around & _reached([one], children).keys()]
            repairs += [_rootless(entry) for entry in entries]
        roots += [replace(entry, parent_id=None) for entry in entries]
    adoption = _Adoption(_reached(roots, children), children)
    if not adoption.requests:
        return Adopted(spans=adoption.adopted, repairs=[])
    if rootless:
        known = {request.service for request in adoption.requests}
        orphans = [one for one in orphans if not repairs or one.service in known]
    for group in _groups(orphans):
        for orphan, place in adoption.places(group):
            adoption.hang(orphan, place)
            repairs.append(
                Repair(
                    kind=RepairKind.ORPHAN,
                    span_id=orphan.span_id,
                    detail=(
                        f"its parent {orphan.parent_id} is not there; "
                        f"hung below {named(place.name)}"
                    ),
                )
            )
    return Adopted(spans=adoption.adopted, repairs=repairs, apart=adoption.apart)


def _rootless(entry: Span) -> Repair:
    return Repair(
        kind=RepairKind.ROOTLESS,
        span_id=entry.span_id,
        detail=f"the request that called {named(entry.name)} never arrived; it is one of its own",
    )


def _children(spans: Iterable[Span], cut: Collection[str]) -> Mapping[str, list[Span]]:
    children = defaultdict(list)
    for span in spans:
        if span.parent_id is not None and span.span_id not in cut:
            children[span.parent_id].append(span)
    return children


def _parentless(spans: Mapping[str, Span], cut: Collection[str]) -> tuple[list[Span], list[Span]]:
    """Roots, and orphans."""
    roots = [span for span in spans.values() if span.parent_id is None]
    orphans = [
        span
        for span in spans.values()
        if span.parent_id is not None and (span.parent_id not in spans or span.span_id in cut)
    ]
    return roots, orphans


def _reached(heads: Iterable[Span], children: Mapping[str, list[Span]]) -> dict[str, Span]:
    """Spans and all below them, by span id, each parent before its children."""
    reached: dict[str, Span] = {}
    pending = list(heads)
    while pending:
        span = pending.pop()
        reached[span.span_id] = span
        pending.extend(children.get(span.span_id, ()))
    return reached


def _outermost(heads: Iterable[Span], children: Mapping[str, list[Span]]) -> Iterator[Span]:
    """The requests below spans that are none themselves."""
    pending = list(heads)
    while pending:
        parent = pending.pop()
        for span in children.get(parent.span_id, ()):
            if is_request(span, parent):
                yield span
            else:
                pending.append(span)


class _Group(NamedTuple):
    """Orphans of one lost parent and one process, in order of start."""

    called: bool  # server or consumer spans, so that the lost parent is of another service
    orphans: Sequence[Span]

    @property
    def process(self) -> _Process:
        return _process(self.orphans[0])

    @property
    def took_ns(self) -> int:
        """From the first start to the last end."""
        return max(orphan.end_ns for orphan in self.orphans) - self.orphans[0].start_ns

    def beside_ns(self, span: Span) -> int:
        """Return how much of that time a span ran."""
        start_ns = self.orphans[0].start_ns
        end_ns = start_ns + self.took_ns
        return max(0, min(end_ns, span.end_ns) - max(start_ns, span.start_ns))

    def ran_in(self, span: Span) -> bool:
        """Return whether all of them began in the time of a span, and half of them ended in it."""
        if (
            not span.start_ns
            <= self.orphans[0].start_ns
            <= self.orphans[-1].start_ns
            < span.end_ns
        ):
            return False
        if (
            span.kind is SpanKind.CLIENT
            and span.status is StatusCode.ERROR
            and not http_code(span)
        ):
            return True  # it may have given up
        within = sum(orphan.end_ns <= span.end_ns for orphan in self.orphans)
        return 2 * within >= len(self.orphans)


def _groups(orphans: Iterable[Span]) -> list[_Group]:
    """In order of start, longer ones first: what ran around one has its place before it."""
    alike: dict[tuple[bool, str | None, _Process], list[Span]] = defaultdict(list)
    for orphan in orphans:
        alike[is_entry(orphan), orphan.parent_id, _process(orphan)].append(orphan)
    groups = [
        _Group(called, sorted(together, key=_order)) for (called, _, _), together in alike.items()
    ]
    return sorted(groups, key=lambda group: _order(group.orphans[0]))


class _Adoption:
    """The spans that have their place, and how orphans join them."""

    def __init__(self, settled: dict[str, Span], children: Mapping[str, list[Span]]) -> None:
        self.adopted: dict[str, Span] = {}
        self.requests: list[Span] = []
        self._children = children
        self._of_process: dict[_Process, list[Span]] = defaultdict(list)
        self._calls: list[Span] = []
        self._messages: list[Span] = []
        self._answered: dict[str, _Process] = {}  # calls, and the answering process
        self._clocks: set[tuple[str, str]] = set()
        self._in_order: dict[tuple[str, bool], list[Span]] = {}  # requests, until one joins
        self._looks = 0
        self.apart = False
        self._settle(settled)

    def hang(self, orphan: Span, place: Span) -> None:
        """Take an orphan in, and all below it."""
        hung = replace(orphan, parent_id=place.span_id)
        self._settle(_reached([hung], self._children))

    def places(self, group: _Group) -> Iterator[tuple[Span, Span]]:
        """Each of the orphans with the span that it is to hang below."""
        known = group.orphans[0].clock in self._clocks
        place = self._around(group)
        self.apart |= not known
        self._looks += len(self._messages) + len(self._calls)
        if not (place or group.called or self._looks > MAX_LOOKS):
            place = self._likely_call(group, known=known)
            self.apart |= place is not None
            place = place or self._last_message(group)
        for orphan in group.orphans:
            yield orphan, place or self._request_of(orphan, called=group.called)

    def _settle(self, reached: Mapping[str, Span]) -> None:
        for span_id, span in reached.items():
            self.adopted[span_id] = span
            self._clocks.add(span.clock)
            parent = None if span.parent_id is None else self.adopted[span.parent_id]
            if parent is None or is_request(span, parent):
                self.requests.append(span)
                if self._looks <= MAX_LOOKS:
                    self._in_order.clear()
            self._of_process[_process(span)].append(span)
            if span.kind is SpanKind.CLIENT:
                self._calls.append(span)
            elif span.kind is SpanKind.PRODUCER:
                self._messages.append(span)
            if parent is not None and parent.service != span.service:
                answered_by = _SERVED if is_entry(span) else _process(span)
                self._answered[parent.span_id] = answered_by

    def _around(self, group: _Group) -> Span | None:
        """The innermost span that plausibly caused orphans."""
        service = group.process[0]
        if not group.called:
            of_process = self._of_process[group.process]
            return self._innermost(group, of_process) or self._innermost(
                group, (call for call in self._calls if call.service != service)
            )
        return self._innermost(
            group, (span for span in self.adopted.values() if span.service != service)
        )

    def _innermost(self, group: _Group, spans: Iterable[Span]) -> Span | None:
        around = []
        for span in spans:
            self._looks += 1
            if self._looks > MAX_LOOKS:
                return None
            if group.ran_in(span) and self._may_call(span, group):
                around.append(span)
        return max(around, key=lambda span: self._rank(span, group), default=None)

    def _last_message(self, group: _Group) -> Span | None:
        """The last message sent before orphans that nothing else has taken."""
        sent = [
            message
            for message in self._messages
            if message.end_ns <= group.orphans[0].start_ns
            and message.service != group.process[0]
            and self._answered.get(message.span_id, group.process) == group.process
        ]
        return max(sent, key=lambda message: (message.end_ns, message.span_id), default=None)

    def _likely_call(self, group: _Group, *, known: bool) -> Span | None:
        """The call that orphans answer though it does not lie around them, for clocks differ.

        Where their clock is known, so that it is about right, the one that ran beside the most
        of them; else the only one that there is.
        """
        enough = [
            call
            for call in self._calls
            if call.clock != group.orphans[0].clock
            and call.service != group.process[0]
            and call.end_ns - call.start_ns >= group.took_ns
            and self._may_call(call, group)
            and not (known and group.beside_ns(call) < _MOST_OF_IT * group.took_ns)
        ]
        likely = [call for call in enough if _names(call, group)] or enough
        if len(likely) > 1 and not known:
            return None
        return max(likely, key=lambda call: (group.beside_ns(call), call.span_id), default=None)

    def _may_call(self, span: Span, group: _Group) -> bool:
        """Tell whether a span can have caused orphans: a call that nothing else has answered."""
        if span.kind is SpanKind.PRODUCER:
            return group.called
        is_call = span.kind is SpanKind.CLIENT
        return not is_call or self._answered.get(span.span_id, group.process) == group.process

    def _rank(self, span: Span, group: _Group) -> tuple[bool, bool, int, int, str]:
        """Called by name; no single piece of work that ran beside; the later start."""
        return (
            _names(span, group),
            span.kind is SpanKind.CLIENT
            or bool(self._children.get(span.span_id))
            or not stage_of(span).explains,
            span.start_ns,
            -span.end_ns,
            span.span_id,
        )

    def _request_of(self, orphan: Span, *, called: bool) -> Span:
        """The request that an orphan belongs to, if nothing ran around it."""
        key = (orphan.service, called)
        if key not in self._in_order:
            fit = [one for one in self.requests if (one.service != orphan.service) is called]
            self._in_order[key] = sorted(fit or self.requests, key=_order)
        in_order = self._in_order[key]
        before = bisect_right(in_order, orphan.start_ns, key=_start_ns)
        for request in reversed(in_order[max(before - MAX_REQUESTS, 0) : before]):
            if orphan.start_ns < request.end_ns:
                return request
        return in_order[max(before - 1, 0)]


def _names(call: Span, group: _Group) -> bool:
    """Return whether a call says that it goes to the service, or the host, of orphans."""
    address = call.attributes.get(semconv.SERVER_ADDRESS)
    first = group.orphans[0]
    known = address is not None and address in {first.service, first.host}
    return known and call.kind is SpanKind.CLIENT


def _start_ns(span: Span) -> int:
    return span.start_ns


def _process(span: Span) -> _Process:
    return span.service, span.instance


def _order(span: Span) -> tuple[int, int, str]:
    return (span.start_ns, -span.end_ns, span.span_id)


def cut_cycles(spans: dict[str, Span]) -> tuple[frozenset[str], list[Repair]]:
    """The spans to be cut off their parents, so that no span is its own ancestor.

    Returns:
        One span id a loop: its earliest span, of those the one with the smallest id.
    """
    finished: set[str] = set()
    cut: set[str] = set()
    repairs = []
    for first, span in spans.items():
        if span.parent_id in finished:  # as of most
            finished.add(first)
            continue
        walked: dict[str, None] = {}
        at: str | None = first
        while at is not None and at in spans and at not in finished and at not in walked:
            walked[at] = None
            at = spans[at].parent_id
        if at is not None and at in walked:
            path = list(walked)
            loop = path[path.index(at) :]
            earliest = min(loop, key=lambda span_id: (spans[span_id].start_ns, span_id))
            cut.add(earliest)
            repairs.append(
                Repair(
                    kind=RepairKind.CYCLE,
                    span_id=earliest,
                    detail=f"{len(loop)} spans were each other's ancestors; cut above this one",
                )
            )
        finished.update(walked)
    return frozenset(cut), repairs
