"""Mosec: what its workers do for the requests that its HTTP server, a program in Rust, hands them.

That server passes on no headers, and does not say when a request came: it begins where the first
worker has it, in a trace of its own. Its place in that trace travels from one worker to the next
behind the bytes that Mosec pickles, where `pickle` does not read.
"""

import json
from collections.abc import Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple

from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.batching import Batch, SingleServed, Ticket, batch_of
from latencytrace.agent.toolkit.calls import Build, before
from latencytrace.agent.toolkit.http.arrival import STEP_NS
from latencytrace.agent.toolkit.http.unseen_server import UnseenServer, connected
from latencytrace.agent.toolkit.own_request import OwnRequest
from latencytrace.agent.toolkit.streaming import AnswerStream
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_COORDINATOR: Final = "mosec.coordinator"
_PROTOCOL: Final = "mosec.protocol"
_WORKER: Final = "_latencytrace_worker"  # our attribute on the protocol of a worker

_INGRESS, _EGRESS = 0b01, 0b10  # of a task's state: this is its first worker, its last
_OK, _EVENT = 1, 0x8000  # what a worker sends is a result, an event of a stream
_STATUS: Final = {_OK: 200, 2: 400, 4: 422, 8: 500, 16: 408}
_MARK: Final = b"latencytrace"
_NEVER: Final = 1 << 62
_IDLE_NS: Final = 50_000_000  # longer than Mosec takes from an answer to the next task
_RECOUNT_NS: Final = 10_000_000_000


class Place(NamedTuple):
    """A request's place in its trace, on its way to the next worker of the same machine."""

    trace_id: int
    span_id: int
    sampled: bool
    route: str
    started_ns: int  # a monotonic time, which all processes share
    sent_ns: int  # likewise

    def behind(self, payload: bytes) -> bytes:
        """Return a payload, sent now, with this at its end."""
        text = json.dumps(self._replace(sent_ns=monotonic_ns())).encode()
        return b"".join((payload, text, len(text).to_bytes(2, "big"), _MARK))

    @classmethod
    def in_payload(cls, payload: bytes) -> "Place | None":
        """Return what the worker before put there; None: it put nothing."""
        if not payload.endswith(_MARK):
            return None
        end = len(payload) - len(_MARK) - 2
        size = int.from_bytes(payload[end : end + 2], "big")
        return cls(*json.loads(payload[end - size : end]))

    def as_span(self) -> Span:
        flags = TraceFlags(TraceFlags.SAMPLED if self.sampled else TraceFlags.DEFAULT)
        return NonRecordingSpan(
            SpanContext(self.trace_id, self.span_id, is_remote=True, trace_flags=flags)
        )


class Request(OwnRequest):
    """A request in its first worker, or in its last."""

    def hand_on(self) -> None:
        """Leave its end to another worker."""
        self.has_ended = True
        if self._gaps is not None:
            self.recorder.open_requests.end(self._gaps)

    def goes_on_from(self, place: Place) -> None:
        """Be the request that began in another worker."""
        span = self.span
        if type(span) is RecordedSpan:
            span.trace_id, span.span_id = place.trace_id, place.span_id


def _begun(recorder: Recorder, route: str, started_ns: int) -> Request:
    request = Request(
        recorder,
        "POST",
        {semconv.HTTP_REQUEST_METHOD: "POST"},
        SpanKind.SERVER,
        started_ns=started_ns,
    )
    request.note_route(route)
    return request


class Task:
    """A request while one worker has it.

    Args:
        route: Of the worker; of a request that comes from another one its own counts.
        state: Whether this is its first worker, and its last.
        came_ns: When the server read it, a monotonic time; None: unknown, or none was before.
    """

    def __init__(
        self, recorder: Recorder, route: str, state: int, payload: bytes, came_ns: int | None
    ) -> None:
        self._recorder = recorder
        self._is_last = bool(state & _EGRESS)
        self._answer: AnswerStream | None = None
        self._request: Request | None = None
        place = None if state & _INGRESS else Place.in_payload(payload)
        if place is None:
            began_ns = monotonic_ns() if came_ns is None else came_ns
            self._request = _begun(recorder, route, began_ns)
            context = self._request.span.get_span_context()
            sampled = context.trace_flags.sampled
            sent_ns = _NEVER if came_ns is None else came_ns  # it waits from then on
            place = Place(context.trace_id, context.span_id, sampled, route, began_ns, sent_ns)
        span = self._request.span if self._request is not None else place.as_span()
        self._place = place
        self.ticket = Ticket(recorder, span, place.sent_ns, None)

    def event(self, sent_ns: int) -> None:
        """Note an event of its answer that has been sent."""
        if self._answer is None:
            self._answer = AnswerStream()
        self._answer.known += 1
        self._answer.chunk_sent(b"-", self._answer.known, sent_ns)

    def sends(self, payload: bytes) -> bytes:
        """Return what the next worker is to get; the last one's is the answer."""
        return payload if self._is_last else self._place.behind(payload)

    def goes_on(self) -> None:
        """Leave it to the next worker, if there is one."""
        if self._is_last:
            self.end(_OK)
        elif self._request is not None:
            self._request.hand_on()

    def end(self, flag: int) -> None:
        """End it, wherever it began."""
        request = self._request
        if request is None:
            if not self._place.sampled:
                return
            request = _begun(self._recorder, self._place.route, self._place.started_ns)
            request.goes_on_from(self._place)
        request.answer = self._answer
        request.note_status(_STATUS.get(flag, 500))
        request.end()


class Front:
    """Mosec's server before workers that are the only ones, each with all of a request.

    What waits is looked at just before an answer is sent: then it is known which requests are
    under way.

    Args:
        socket: Of those workers.
        address: Of the server, and its port.
    """

    def __init__(self, socket: Path, address: tuple[str, int], *, takes_batches: bool) -> None:
        self._socket = str(socket)
        self._server = UnseenServer(*address)
        self._takes_batches = takes_batches
        self._since_ns = 0  # nothing without an answer came before
        self._has = 0  # tasks that this worker does all of
        self._workers = 0  # of the same kind; 0: unknown
        self._recounts_ns = 0

    def came(self, asked_ns: int, states: Sequence[int]) -> list[int]:
        """Return when the tasks came that the worker has now, in order, as far as that is known.

        A worker that had to wait for long since it asked has found an empty queue.
        """
        now_ns = monotonic_ns()
        if now_ns - asked_ns >= _IDLE_NS:
            self._since_ns = asked_ns
        self._has = len(states) if set(states) == {_INGRESS | _EGRESS} else 0
        came = self._server.take(self._has)
        if came:
            self._since_ns = came[0] - 2 * STEP_NS
        return came

    def look(self) -> None:
        """See what waits for the workers."""
        now_ns = monotonic_ns()
        if now_ns >= self._recounts_ns:
            self._workers, self._recounts_ns = connected(self._socket), now_ns + _RECOUNT_NS
        if not self._has or (self._workers != 1 and self._takes_batches):
            return  # which requests others have is not known
        under_way = self._has if self._workers == 1 else self._workers
        if not self._server.look(under_way, self._since_ns) and self._workers != 1:
            self._server.forget()


class Worker:
    """A worker of Mosec's, and the tasks that it has."""

    def __init__(self, recorder: Recorder, coordinator: Any) -> None:
        self._recorder = recorder
        self._worker = coordinator.worker
        socket, stage = Path(coordinator.protocol.addr), self._worker.stage
        configuration = json.loads(socket.with_name("config.json").read_text(encoding="utf-8"))
        self._route = _route(configuration, stage)
        self._front: Front | None = None  # None: it is not the one that all requests begin in
        if {one["workers"][0] for one in configuration["routes"]} == {stage}:
            takes_batches = self._worker.max_batch_size > 1
            address = configuration["address"], configuration["port"]
            self._front = Front(socket, address, takes_batches=takes_batches)
        self._are_pickled = _is_pickled(type(self._worker))
        self._tasks: dict[bytes, Task] = {}  # by their ids
        self._serving: Batch | SingleServed | None = None

    def received(
        self,
        asked_ns: int,
        ids: Sequence[bytes],
        states: Sequence[int],
        payloads: Sequence[bytes],
    ) -> None:
        """Begin to serve tasks that came together, since the worker asked for more."""
        came: list[int | None] = []
        if self._front is not None:
            came += self._front.came(asked_ns, states)
        came += [None] * (len(ids) - len(came))
        self._tasks = {
            one: Task(self._recorder, self._route, state, payload, came_ns)
            for one, state, payload, came_ns in zip(ids, states, payloads, came, strict=True)
        }
        tickets = [task.ticket for task in self._tasks.values()]
        if self._worker.max_batch_size > 1:
            batch = batch_of(self._recorder, tickets)
            self._serving = None if batch is None else batch.__enter__()
        else:
            self._serving = SingleServed(self._recorder, tickets[0], "forward", Stage.FORWARD)

    def note_part(self, stage: Stage, started_ns: int) -> None:
        """Note that what was done since a monotonic time is of another stage."""
        if self._serving is not None:
            self._serving.note_part(stage, started_ns)

    def sends(self, flag: int, ids: Sequence[bytes], payloads: Sequence[bytes]) -> Sequence[bytes]:
        """End the work, and return what is sent; an event of a stream ends nothing."""
        if flag == _EVENT:
            return payloads
        if self._front is not None:
            self._front.look()
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.deactivate()
            serving.end()
        if flag != _OK or not self._are_pickled:
            return payloads
        return [
            self._tasks[one].sends(payload) for one, payload in zip(ids, payloads, strict=True)
        ]

    def has_sent(self, flag: int, ids: Sequence[bytes]) -> None:
        """End the requests that no other worker is to have, or note an event of a stream."""
        now_ns = monotonic_ns()
        for task in map(self._tasks.__getitem__, ids):
            if flag == _EVENT:
                task.event(now_ns)
            elif flag == _OK and self._are_pickled:
                task.goes_on()
            else:
                task.end(flag)


def _is_pickled(kind: Any) -> bool:
    """Say whether a class of workers leaves to Mosec how results go on to the next worker."""
    base: Any = next(base for base in kind.__mro__ if base.__module__ == "mosec.worker")
    return kind.serialize_ipc is base.serialize_ipc


def _route(configuration: Any, stage: str) -> str:
    """Return the path that a worker serves, as Mosec has written it down; of several, its name."""
    routes = [one["endpoint"] for one in configuration["routes"] if stage in one["workers"]]
    return str(routes[0]) if len(routes) == 1 else f"/{stage}"


def _watch_worker(recorder: Recorder, arguments: Arguments) -> None:
    coordinator: Any = arguments["self"]
    setattr(coordinator.protocol, _WORKER, Worker(recorder, coordinator))


def time_receives(recorder: Recorder, original: Timed) -> Timed:
    """Begin what a worker does for the tasks that it gets."""

    @wraps(original)
    def receive(self: Any) -> Any:
        asked_ns = monotonic_ns()
        received = original(self)
        with guarded("taking tasks", recorder.on_fault):
            worker = vars(self).get(_WORKER)
            if worker is not None:
                _, ids, states, payloads = received
                worker.received(asked_ns, ids, states, payloads)
        return received

    return receive


def time_sends(recorder: Recorder, original: Timed) -> Timed:
    """End what a worker did for tasks, and add their place in their traces to what it sends."""

    @wraps(original)
    def send(self: Any, flag: int, ids: Any, states: Any, payloads: Any) -> Any:
        worker = vars(self).get(_WORKER)
        if worker is None:
            return original(self, flag, ids, states, payloads)
        with guarded("ending a worker's tasks", recorder.on_fault):
            payloads = worker.sends(flag, ids, payloads)
        try:
            return original(self, flag, ids, states, payloads)
        finally:
            with guarded("ending requests", recorder.on_fault):
                worker.has_sent(flag, ids)

    return send


def _part(stage: Stage) -> Build:
    """Build what times a part of a worker's work."""

    def build(recorder: Recorder, original: Timed) -> Timed:
        @wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            started_ns = monotonic_ns()
            try:
                return original(self, *args, **kwargs)
            finally:
                with guarded("timing a part", recorder.on_fault):
                    worker = vars(self.protocol).get(_WORKER)
                    if worker is not None:
                        worker.note_part(stage, started_ns)

        return call

    return build


class MosecHook(Hook):
    """Times each worker's work, batched or not, and the waits between two of them."""

    requires = ("mosec >= 0.9.1",)
    patches = (
        Replacement(
            _COORDINATOR, "Coordinator.init_protocol", before("watching a worker", _watch_worker)
        ),
        Replacement(_PROTOCOL, "Protocol.receive", time_receives),
        Replacement(_COORDINATOR, "Coordinator.decode", _part(Stage.PREPROCESS)),
        Replacement(_COORDINATOR, "Coordinator.encode", _part(Stage.POSTPROCESS)),
        Replacement(_PROTOCOL, "Protocol.send", time_sends),
    )
