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
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.batching import Batch, SingleServed, Ticket, batch_of, new_ticket
from latencytrace.agent.toolkit.calls import after, before
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

    def __init__(self, recorder: Recorder, queue: Any) -> None:
        self._recorder = recorder
        self._queue = queue

    def put(self, item: Any, *args: Any, **kwargs: Any) -> Any:
        """Put a request there, with its ticket if it is traced."""
        return self._queue.put(self._ticketed(item), *args, **kwargs)

    def put_nowait(self, item: Any) -> Any:
        """Time the decoding of an async one."""
        return self._queue.put_nowait(self._ticketed(item))

    def _ticketed(self, item: Any) -> Any:
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

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return itemgetter(0), ((self._queue,),)


def ticketed_queue(recorder: Recorder, original: Timed) -> Timed:
    """Give LitServe's servers a queue that takes tickets."""

    @wraps(original)
    def _get_request_queue(self: object, *args: Any, **kwargs: Any) -> Any:
        return TicketedQueue(recorder, original(self, *args, **kwargs))

    return _get_request_queue


class Serving:
    """Work of a worker: a batch, or one request alone."""

    def __init__(self, work: Batch | SingleServed) -> None:
        self._work = work
        self._began_ns = 0
        self.ended_ns: int | None = None

    def event(self, name: str) -> None:
        """Note a part that begins or ends, as LitServe reports it to its callbacks."""
        if name in _BEGINNINGS:
            self._began_ns = monotonic_ns()
        elif name in _ENDS and self.ended_ns is None:
            self._work.note_part(_ENDS[name], self._began_ns)

    def end(self, error: BaseException | None = None) -> None:
        if self.ended_ns is not None:
            return
        self.ended_ns = monotonic_ns()
        self._work.deactivate()
        self._work.end(error, self.ended_ns)


# Of a worker's one thread, or of a task of its loop.
_serving: ContextVar[Serving | None] = ContextVar("latencytrace.litserve.serving", default=None)
_collecting: ContextVar[bool] = ContextVar("latencytrace.litserve.collecting", default=False)


def begin_single(recorder: Recorder, uid: object) -> Serving | None:
    """Serve one request alone."""
    ticket = taken(uid)
    if ticket is None:
        return None
    return Serving(SingleServed(recorder, ticket, "forward", Stage.FORWARD))


def begin_batch(recorder: Recorder, uids: Iterable[object]) -> Serving | None:
    """Serve requests together."""
    batch = batch_of(recorder, filter(None, map(taken, uids)))
    return None if batch is None else Serving(batch.__enter__())


def serve_next(serving: Serving | None) -> None:
    """Serve this from now on; what the loop served before has ended."""
    before = _serving.get()
    if before is not None:
        before.end()
    _serving.set(serving)


def time_batch(recorder: Recorder, original: Timed) -> Timed:
    """Begin a batch once its requests are collected."""

    @wraps(original)
    def collect(*args: Any, **kwargs: Any) -> Any:
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


def time_single(recorder: Recorder, original: Timed) -> Timed:
    """Serve a request alone that an asyncio loop took from the queue, in a task of its own."""

    @wraps(original)
    async def _process_request(self: object, request: Any, *args: Any, **kwargs: Any) -> Any:
        serving = None
        with guarded("serving a request", recorder.on_fault):
            serving = begin_single(recorder, request[1])
            _serving.set(serving)
        try:
            return await original(self, request, *args, **kwargs)
        finally:
            if serving is not None:
                with guarded("serving a request", recorder.on_fault):
                    serving.end()

    return _process_request


def _note_response(recorder: Recorder, arguments: Arguments) -> None:
    """Begin to serve what a loop says that it took, and end what has its answer."""
    uid, status, kind = (arguments[name] for name in ("uid", "status", "response_type"))
    if status == _START:
        if not _collecting.get() and _get_running_loop() is None:
            serve_next(begin_single(recorder, uid))
        return
    serving = _serving.get()
    if serving is not None and (status != _OK or getattr(kind, "name", None) == _REGULAR):
        serving.end(_error(arguments["response_data"]))
        if isinstance(uid, TicketedId):
            uid.served_ns = (serving.ended_ns or 0) + ANCHOR_NS


def _error(data: object) -> BaseException | None:
    return data if isinstance(data, BaseException) else None


def _note_error(_: Recorder, arguments: Arguments) -> None:
    """End what failed with its error, which is answered as bytes."""
    serving = _serving.get()
    if serving is not None:
        serving.end(_error(arguments["error"]))


def _note_event(_: Recorder, arguments: Arguments) -> None:
    """Attribute the work by the events that callbacks are called with."""
    serving = _serving.get()
    if serving is not None:
        name: Any = arguments["event_name"]
        serving.event(name)


def _note_answer(recorder: Recorder, _: Arguments, received: Any) -> None:
    """Time an answer's way back, from the end of its work to its server."""
    uid = received[0] if isinstance(received, tuple) else None
    if isinstance(uid, TicketedId) and uid.served_ns:
        context, served_ns = _asked.pop(uid, None), uid.served_ns - ANCHOR_NS
        if context is not None and served_ns < monotonic_ns():
            way = recorder.start("answer", Stage.TRANSFER, context=context, started_ns=served_ns)
            way.end()


_answer = after("taking an answer", _note_answer)


class LitserveHook(Hook):
    """Times the wait for a worker and its work, batched or not, in each request's own trace."""

    requires = ("litserve >= 0.2.17",)
    patches = (
        Replacement(_SERVER, "LitServer._get_request_queue", ticketed_queue),
        Replacement(_BASE, "LitLoop.get_batch_requests", time_batch),
        Replacement(_STREAMING, "collate_requests", time_batch),
        Replacement(_BASE, "LitLoop.put_response", before("noting a response", _note_response)),
        Replacement(_BASE, "LitLoop.put_error_response", before("noting an error", _note_error)),
        Replacement(_SIMPLE, "SingleLoop._process_single_request", time_single, optional=True),
        Replacement(
            _STREAMING, "StreamingLoop._process_streaming_request", time_single, optional=True
        ),
        Replacement(
            _CALLBACKS, "CallbackRunner.trigger_event", before("noting an event", _note_event)
        ),
        Replacement(_PROCESSES, "MPQueueTransport.areceive", _answer),
        Replacement(_ZMQ, "ZMQTransport.areceive", _answer),
    )
