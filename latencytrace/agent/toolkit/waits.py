"""Waits of a request for locks, queues and events of its own program.

A wait for room (a lock, a semaphore, a full queue) is a span. One for a result (an event, an empty
queue) may be for work of the request that is traced on another thread: it is a gap, which only
fills what nothing else explains. And only where the request itself waits, in the task or thread
that serves it: what another task listens for, such as the caller's leaving, holds nothing up.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import PurePath
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # where a context holds its span
)

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import current
from latencytrace.agent.guard import guarded
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.holds import NOTICED_NS
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS, REQUEST, RESULT, RuntimeGaps
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

MOST_SPANS: Final = 64  # of a request; waits beyond are noted without their names
_POOLS: Final = frozenset({"asyncpg", "psycopg_pool", "redis", "sqlalchemy", "valkey"})
# Packages of what waits are made of,
_MADE_OF_LOCKS: Final = frozenset({"multiprocessing", "threading"})
_LIBRARIES: Final = _POOLS | _MADE_OF_LOCKS | {"anyio", "asyncio", "functools", "logging", "queue"}
# of what waits for clients and their answers, or for the work of a pool, which is traced,
_SERVERS: Final = frozenset(
    {"aiohttp", "gunicorn", "hypercorn", "starlette", "tornado", "uvicorn"}
)
_OTHERS: Final = _SERVERS | {
    "asgiref", "concurrent", "dask", "gevent", "importlib", "multiprocess", "multiprocessing.pool",
    "waitress", "werkzeug"
}  # fmt: skip
_CONNECTS: Final = "httpcore"  # whose locks are of connections: no line of the program's has them
_OURS: Final = "latencytrace"
# of what calls the program to serve a request, or to make a part of its answer,
_SERVING: Final = frozenset({_OURS, "fastapi", "starlette"})
# and modules of what runs tasks: behind it is no caller of theirs.
_LOOPS: Final = frozenset({"asyncio.events", "asyncio.base_events", "asyncio.runners", "uvloop"})
_STARTS_THREADS: Final = "latencytrace.agent.hooks.threads"  # by a function of ours before them
# Functions that wait until there is room; the others wait for what may be the request's own work.
_TAKEN: Final = frozenset({"_acquire", "_do_get", "get_connection", "getconn"})  # from pools
_FOR_ROOM: Final = _TAKEN | {"acquire", "acquire_on_behalf_of", "put"}
_TAKES_A_LOCK: Final = frozenset({"__enter__", "acquire"})  # and does nothing else
_PYTHONS: Final = (os.path.dirname(os.__file__) + os.sep, "<frozen ")  # noqa: PTH120 - as they begin
_INSTALLED: Final = ("site-packages", "dist-packages")
MADE_FUTURE: Final = "Future"  # by the program; when it began to await that is not known
_DOING: Final = "noting a wait"


class Place(NamedTuple):
    """Where a program waits."""

    called: str  # of the library: `Semaphore.acquire`
    is_for_room: bool  # others have what it waits for
    code: CodeType | None  # of the program; None: it is called by none
    line: int

    @property
    def name(self) -> str:
        """Return what is waited for, and where: `worker.py:88 semaphore`."""
        kind = self.called.partition(".")[0].lower()
        if self.code is None:
            return kind
        return f"{PurePath(self.code.co_filename).name}:{self.line} {kind}"


class Wait:
    """One wait under way of a request.

    Args:
        started_ns: A monotonic time.
    """

    __slots__ = ("_context", "_gaps", "_held_by", "_place", "_recorder", "_started_ns")

    def __init__(
        self,
        recorder: Recorder,
        gaps: RuntimeGaps,
        context: Context,
        started_ns: int,
        place: Place,
    ) -> None:
        self._recorder = recorder
        self._gaps = gaps
        self._context = context
        self._started_ns = started_ns
        self._place = place
        self._held_by = ""  # the title of the request that made room; "": none did, or unknown

    @property
    def is_for_room(self) -> bool:
        """Tell whether others have what it waits for."""
        return self._place.is_for_room

    def has_room(self) -> None:
        """Note that the current code makes room: another request had what this one waits for."""
        with guarded(_DOING, self._recorder.on_fault):
            otel = current()
            holder = otel.get(GAPS)
            if holder is not self._gaps and holder in self._recorder.open_requests.open:
                self._held_by = getattr(otel.get(REQUEST), "title", "")

    def held_by(self, title: str) -> None:
        """Note the title of another request that had what this one waits for."""
        self._held_by = title

    def end(self, ended_ns: int, *, may_hold: bool = False) -> None:
        """Note it, if it took a millisecond.

        Args:
            may_hold: The program may hold a lock that a span's processor takes: a span of the
                wait is recorded with the request's end, and none after that.
        """
        if self._place.called == MADE_FUTURE:  # what its request did meanwhile is no wait
            self._started_ns = max(self._started_ns, self._gaps.ran_ns)
        if ended_ns - self._started_ns < NOTICED_NS:
            return
        with guarded(_DOING, self._recorder.on_fault):
            gaps = self._gaps
            if not self._place.is_for_room or gaps.waits >= MOST_SPANS:
                gaps.note(RESULT, self._started_ns, ended_ns)
                return
            gaps.waits += 1
            record = _Recording(self, ended_ns)
            if not may_hold:
                record.end()
            elif gaps in self._recorder.open_requests.open:
                later = gaps.unfinished = gaps.unfinished or []
                later.append(record)

    def record(self, ended_ns: int) -> None:
        """Record a span of it."""
        by = f" held by {self._held_by}" if self._held_by else ""
        timing = self._recorder.start(
            self._place.name + by,
            Stage.QUEUE,
            context=self._context,
            started_ns=self._started_ns,
        )
        timing.end(ended_ns)


class _Recording(NamedTuple):
    """A wait that is over, and has no span yet."""

    wait: Wait
    ended_ns: int

    def end(self) -> None:
        self.wait.record(self.ended_ns)


def begun(
    recorder: Recorder, frame: FrameType, started_ns: int, called: str = "Condition.wait"
) -> Wait | None:
    """Begin a wait of the current request; None: there is none, or it waits for work of its own.

    Args:
        frame: From where it waits, through functions of the library at first.
        started_ns: A monotonic time.
        called: What is called there, unless the frames tell: `Lock.acquire`.
    """
    context = current()
    gaps = context.get(GAPS)
    if not isinstance(gaps, RuntimeGaps):
        return None
    place = _place(frame, called, is_explained=_is_explained(context))
    return None if place is None else Wait(recorder, gaps, context, started_ns, place)


def is_programs(code: CodeType) -> bool:
    """Tell whether code is the program's own: neither Python's nor installed."""
    path = code.co_filename
    return not path.startswith(_PYTHONS) and not any(part in path for part in _INSTALLED)


def note_wait(
    recorder: Recorder, started_ns: int, kind: str = "Condition", method: str = "wait"
) -> None:
    """Note a wait of what calls the caller, once it is over: only a long one has its place found.

    Args:
        started_ns: A monotonic time.
        kind: What is waited for, unless the frames tell.
        method: What is called of it.
    """
    ended_ns = monotonic_ns()
    if ended_ns - started_ns >= NOTICED_NS:
        with guarded(_DOING, recorder.on_fault):
            wait = begun(recorder, sys._getframe(2), started_ns, f"{kind}.{method}")
            if wait is not None:
                wait.end(ended_ns, may_hold=True)


def note_call(
    recorder: Recorder,
    called: str,
    started_ns: int,
    ended_ns: int,
    holder: Any = None,
    caller: FrameType | None = None,
) -> None:
    """Note a wait for a lock or a simple queue, once it is over.

    Args:
        called: What was called: `Lock.acquire`.
        started_ns: A monotonic time.
        ended_ns: A monotonic time, too.
        holder: The other request that had a lock when the wait began; None: none, or unknown.
        caller: From where it was called; None: from here, by C, which has no frame of its own.
    """
    with guarded(_DOING, recorder.on_fault):
        if current().get(GAPS) is None:  # and a thread may have no frame
            return
        taker = sys._getframe(1) if caller is None else caller
        package = _package(taker)
        is_part = taker.f_code.co_name not in _TAKES_A_LOCK and package in _MADE_OF_LOCKS
        # Conditions and threads wait for what they are made of by locks.
        if package == _OURS or (is_part and package == "threading"):
            return
        wait = begun(recorder, taker, started_ns, "" if is_part else called)
        if wait is not None:
            if holder is not None:
                wait.held_by(holder.title)
            wait.end(ended_ns, may_hold=True)


def _is_explained(context: Context) -> bool:
    """Tell whether a span that explains its own time is current: no gap fills any of that."""
    span = context.get(_SPAN_KEY)
    return (
        type(span) is RecordedSpan
        and not span.ended_ns
        and semconv.STAGE in (span.raw_attributes or {})
    )


def _place(frame: FrameType, called: str, *, is_explained: bool) -> Place | None:
    """Return where the program waits; None: ours times it, or it is no wait of the program's.

    Args:
        is_explained: Where a wait is for a result, nothing needs to know of it.
    """
    is_for_room = called.rpartition(".")[2] in _FOR_ROOM
    for at in _outwards(frame):
        package = _package(at)
        if package in _OTHERS or (package == _OURS and not is_for_room):
            return None
        if package == _CONNECTS and is_for_room:  # another request's connecting, or its pool
            return Place("Connection.acquire", is_for_room, None, 0)
        if package in _LIBRARIES:
            name = at.f_code.co_name
            if not is_for_room and not name.startswith("__"):  # no `__enter__`
                called, is_for_room = at.f_code.co_qualname, name in _FOR_ROOM
        elif package != _OURS:
            serves = is_for_room or (
                not is_explained and any(_package(outer) in _SERVING for outer in _outwards(at))
            )
            return Place(called, is_for_room, at.f_code, at.f_lineno) if serves else None
    return Place(called, is_for_room, None, 0) if is_for_room else None


def _outwards(frame: FrameType) -> Iterator[FrameType]:
    """Yield a frame and its callers, as far as they are of one task or thread.

    A thread that a request starts may go on for ever, and wait for work of all.
    """
    at: FrameType | None = frame
    while at is not None and _module(at) not in _LOOPS:
        outer = at.f_back
        if outer is not None and _module(outer) == _STARTS_THREADS:
            return
        yield at
        at = outer


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _package(frame: FrameType) -> str:
    module = _module(frame)
    return module if module in _OTHERS else module.partition(".")[0]
