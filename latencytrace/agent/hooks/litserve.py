"""LitServe: the queue between its HTTP servers and its workers, and what a worker does.

The two are processes of their own, so a request's ticket travels through LitServe's queue
on the request's id, which the worker names whatever it does with the request.
"""

from asyncio import _get_running_loop  # in a thread without a loop it is None, and no error
from collections import OrderedDict
from collections.abc import Iterable
from contextvars import ContextVar
from functools import wraps
from operator import itemgetter
from typing import Any, Self

from opentelemetry.context import Context

from latencytrace.agent.clock import ANCHOR_NS, monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.batching import Batch, Ticket, new_ticket
from latencytrace.agent.toolkit.single import Turn
from latencytrace.model.stage import Stage

_SERVER = "litserve.server"
_BASE = "litserve.loops.base"
_SIMPLE = "litserve.loops.simple_loops"
_STREAMING = "litserve.loops.streaming_loops"
_CALLBACKS = "litserve.callbacks.base"
_PROCESSES = "litserve.transport.process_transport"
_ZMQ = "litserve.transport.zmq_transport"

_MOST_ASKED = 10_000

_START, _OK, _REGULAR = "START", "OK", "REGULAR"

_BEGINNINGS = frozenset({"on_before_decode_request", "on_before_encode_response"})
_ENDS = {
    "on_after_decode_request": Stage.PREPROCESS,
    "on_after_encode_response": Stage.POSTPROCESS,
}


class TicketedId(str):
    """A request's id with its ticket; to LitServe the same text."""

    __slots__ = ("served_ns", "ticket")
    ticket: Ticket | None  # None once it is taken
    served_ns: int  # when its work was done, by the wall; 0: it is not yet

    def __new__(cls, text: str, ticket: Ticket | None, served_ns: int = 0) -> Self:
        """A text that carries a ticket, or the time when it was served."""
        made = super().__new__(cls, text)
        made.ticket, made.served_ns = ticket, served_ns
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        if self.ticket is None and not self.served_ns:  # as the chunks of a stream
            return str, (str(self),)
        return TicketedId, (str(self), self.ticket, self.served_ns)


def taken(uid: object) -> Ticket | None:
    """The ticket of an id, once."""
    if not isinstance(uid, TicketedId):
        return None
    ticket, uid.ticket = uid.ticket, None
    return ticket


# Of a server's requests that wait for their answer, what was current where they joined the queue.
_asked: OrderedDict[str, Context] = OrderedDict()


class TicketedQueue:
    """LitServe's queue as its servers see it; sent to a worker it is LitServe's own again."""

    def __init__(self, recorder: Recorder, queue: Any) -> None:  # noqa: ANN401 - a manager's proxy
        self._recorder = recorder
        self._queue = queue

    def put(self, item: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Put a request there, with its ticket if it is traced."""
        return self._queue.put(self._ticketed(item), *args, **kwargs)

    def put_nowait(self, item: Any) -> Any:  # noqa: ANN401
        """Likewise."""
        return self._queue.put_nowait(self._ticketed(item))

    def _ticketed(self, item: Any) -> Any:  # noqa: ANN401
        with guarded("joining a queue", self._recorder.on_fault):
            ticket = new_ticket(self._recorder, None)
            if ticket.sampled is not None:
                response_queue_id, uid, *rest = item
                if ticket.sampled:
                    _asked[uid] = ticket.context()
                    if len(_asked) > _MOST_ASKED:  # some are never answered
                        _asked.popitem(last=False)
                return (response_queue_id, TicketedId(uid, ticket), *rest)
        return item

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._queue, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return itemgetter(0), ((self._queue,),)


def ticketed_queue(recorder: Recorder, original: Timed) -> Timed:
    """Give LitServe's servers a queue that takes tickets."""

    @wraps(original)
    def _get_request_queue(self: object, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return TicketedQueue(recorder, original(self, *args, **kwargs))

    return _get_request_queue


class Serving:
    """What a worker serves: a batch, or one request alone."""

    def __init__(self, work: Batch | Turn) -> None:
        self._work = work
        self._began_ns = 0
        self.ended_ns: int | None = None

    def event(self, name: str) -> None:
        """Note a part that begins or ends, as LitServe tells its callbacks."""
        if name in _BEGINNINGS:
            self._began_ns = monotonic_ns()
        elif name in _ENDS and self.ended_ns is None:
            self._work.note_part(_ENDS[name], self._began_ns)

    def end(self, error: BaseException | None = None) -> None:
        """End it, once."""
        if self.ended_ns is not None:
            return
        self.ended_ns = monotonic_ns()
        self._work.deactivate()
        self._work.end(error, self.ended_ns)


# Of a worker's one thread, or of a task of its loop.
_serving: ContextVar[Serving | None] = ContextVar("latencytrace.litserve.serving", default=None)
_collecting: ContextVar[bool] = ContextVar("latencytrace.litserve.collecting", default=False)


def begin_turn(recorder: Recorder, uid: object) -> Serving | None:
    """Serve one request alone."""
    ticket = taken(uid)
    return None if ticket is None else Serving(Turn(recorder, ticket, "forward", Stage.FORWARD))


def begin_batch(recorder: Recorder, uids: Iterable[object]) -> Serving | None:
    """Serve requests together."""
    tickets = [ticket for ticket in map(taken, uids) if ticket is not None]
    if not tickets:
        return None
    return Serving(Batch(lambda: recorder, tickets, Stage.FORWARD, {}).__enter__())


def serve_next(serving: Serving | None) -> None:
    """What a loop serves from now on; what it served before has ended."""
    before = _serving.get()
    if before is not None:
        before.end()
    _serving.set(serving)


def time_batch(recorder: Recorder, original: Timed) -> Timed:
    """Begin a batch once its requests are collected."""

    @wraps(original)
    def collect(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        collecting = _collecting.set(True)
        try:
            found = original(*args, **kwargs)
        finally:
            _collecting.reset(collecting)
        with guarded("starting a batch", recorder.on_fault):
            if found[0]:
                serve_next(None)
                serve_next(begin_batch(recorder, [uid for _, uid, *_ in found[0]]))
        return found

    return collect


def time_turn(recorder: Recorder, original: Timed) -> Timed:
    """Serve a request alone that an asyncio loop took from the queue, in a task of its own."""

    @wraps(original)
    async def _process_request(self: object, request: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        serving = None
        with guarded("starting a turn", recorder.on_fault):
            serving = begin_turn(recorder, request[1])
            _serving.set(serving)
        try:
            return await original(self, request, *args, **kwargs)
        finally:
            if serving is not None:
                with guarded("ending a turn", recorder.on_fault):
                    serving.end()

    return _process_request


def note_response(recorder: Recorder, original: Timed) -> Timed:
    """Begin a turn where a loop says that it took a request, and end what has its answer."""

    @wraps(original)
    def put_response(  # noqa: PLR0913, PLR0917 - as in LitServe
        self: object,
        transport: Any,  # noqa: ANN401
        response_queue_id: Any,  # noqa: ANN401
        uid: Any,  # noqa: ANN401
        response_data: Any,  # noqa: ANN401
        status: Any,  # noqa: ANN401
        response_type: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        with guarded("noting a response", recorder.on_fault):
            _note(recorder, uid, response_data, status, response_type.name)
        return original(
            self, transport, response_queue_id, uid, response_data, status, response_type
        )

    return put_response


def _note(recorder: Recorder, uid: object, data: object, status: str, kind: str) -> None:
    if status == _START:
        if not _collecting.get() and _get_running_loop() is None:
            serve_next(begin_turn(recorder, uid))
        return
    serving = _serving.get()
    if serving is not None and (status != _OK or kind == _REGULAR):
        serving.end(data if isinstance(data, BaseException) else None)
        if isinstance(uid, TicketedId):
            uid.served_ns = (serving.ended_ns or 0) + ANCHOR_NS


def time_answer(recorder: Recorder, original: Timed) -> Timed:
    """Time an answer's way back, from the end of its work to its server."""

    @wraps(original)
    async def areceive(self: object, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        received = await original(self, *args, **kwargs)
        with guarded("taking an answer", recorder.on_fault):
            uid = received[0] if isinstance(received, tuple) else None
            if isinstance(uid, TicketedId) and uid.served_ns:
                context, served_ns = _asked.pop(uid, None), uid.served_ns - ANCHOR_NS
                if context is not None and served_ns < monotonic_ns():
                    recorder.start(
                        "answer", Stage.TRANSFER, context=context, started_ns=served_ns
                    ).end()
        return received

    return areceive


def note_error(recorder: Recorder, original: Timed) -> Timed:
    """End what failed with its error, which is answered as bytes."""

    @wraps(original)
    def put_error_response(
        self: object,
        transport: Any,  # noqa: ANN401
        response_queue_id: Any,  # noqa: ANN401
        uid: Any,  # noqa: ANN401
        error: Any,  # noqa: ANN401
        *args: Any,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        with guarded("noting an error", recorder.on_fault):
            serving = _serving.get()
            if serving is not None:
                serving.end(error if isinstance(error, BaseException) else None)
        return original(self, transport, response_queue_id, uid, error, *args, **kwargs)

    return put_error_response


def note_event(recorder: Recorder, original: Timed) -> Timed:
    """Divide the work by the events that callbacks are told of."""

    @wraps(original)
    def trigger_event(self: object, event_name: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        with guarded("noting an event", recorder.on_fault):
            serving = _serving.get()
            if serving is not None:
                serving.event(event_name)
        return original(self, event_name, *args, **kwargs)

    return trigger_event


class LitserveHook(Hook):
    """Times the wait for a worker and its work, batched or not, in each request's own trace."""

    requires = ("litserve >= 0.2.17",)
    patches = (
        Replacement(_SERVER, "LitServer._get_request_queue", ticketed_queue),
        Replacement(_BASE, "LitLoop.get_batch_requests", time_batch),
        Replacement(_STREAMING, "collate_requests", time_batch),
        Replacement(_BASE, "LitLoop.put_response", note_response),
        Replacement(_BASE, "LitLoop.put_error_response", note_error),
        Replacement(_SIMPLE, "SingleLoop._process_single_request", time_turn, optional=True),
        Replacement(
            _STREAMING, "StreamingLoop._process_streaming_request", time_turn, optional=True
        ),
        Replacement(_CALLBACKS, "CallbackRunner.trigger_event", note_event),
        Replacement(_PROCESSES, "MPQueueTransport.areceive", time_answer),
        Replacement(_ZMQ, "ZMQTransport.areceive", time_answer),
    )
