"""Ray Serve: requests on their way to a replica, and the batches of `@serve.batch`."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction
from socket import gethostname
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from latencytrace.agent.clock import ANCHOR_NS, monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.batching import Ticket, batch_of, new_ticket
from latencytrace.agent.toolkit.calls import after, before
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_BATCHING = "ray.serve.batching"
_COMMON = "ray.serve._private.common"
_REPLICA = "ray.serve._private.replica"

_TICKET = "_latencytrace_ticket"  # our attribute on what waits for a batch
_SENT = "_latencytrace_sent"  # and on a request's metadata: texts alone, which any process reads
_HOST, _AT = "host", "at"

_w3c = TraceContextTextMapPropagator()


def _send_with_metadata(recorder: Recorder, arguments: Arguments, _: object) -> None:
    """Let a request's metadata carry its context from a proxy or a caller to the replica."""
    metadata, span = arguments["self"], get_current_span()
    if span.get_span_context().is_valid and not recorder.suppressed():
        sent: dict[str, str] = {}
        _w3c.inject(sent)
        sent |= {_HOST: gethostname(), _AT: str(monotonic_ns() + ANCHOR_NS)}
        setattr(metadata, _SENT, sent)
        _note_route(span, getattr(metadata, "route", ""))


_send = after("sending a request to a replica", _send_with_metadata)


def _note_route(span: Span, route: str) -> None:
    """A proxy's span knows its route only now."""
    attributes = getattr(span, "attributes", None) or {}
    if (
        route
        and getattr(span, "kind", None) is SpanKind.SERVER
        and semconv.HTTP_REQUEST_METHOD in attributes
        and semconv.HTTP_ROUTE not in attributes
    ):
        span.set_attribute(semconv.HTTP_ROUTE, route)
        span.update_name(f"{attributes[semconv.HTTP_REQUEST_METHOD]} {route}")


def time_replica(recorder: Recorder, original: Timed) -> Timed:
    """Time what a replica does for a request, in the request's trace."""

    @wraps(original)
    @contextmanager
    def _tracing_context(self: Any, request_metadata: Any) -> Iterator[None]:
        timing = None
        with guarded("taking a request in a replica", recorder.on_fault):
            timing = _arrived(recorder, self, vars(request_metadata).get(_SENT))
        try:
            with original(self, request_metadata):
                yield
        except BaseException as error:
            if timing is not None:
                with guarded("noting an error", recorder.on_fault):
                    timing.fail(error)
            raise
        finally:
            if timing is not None:
                with guarded("ending a replica's work", recorder.on_fault):
                    timing.deactivate()
                    timing.end()

    return _tracing_context


def _arrived(recorder: Recorder, replica: Any, sent: Any) -> Timing | None:
    if not isinstance(sent, dict):
        return None
    now_ns = monotonic_ns()
    context = _w3c.extract(sent, Context())
    sent_ns = int(sent[_AT]) - ANCHOR_NS
    if sent.get(_HOST) == gethostname() and sent_ns < now_ns:  # the same clock
        way = recorder.start("route_to_replica", Stage.QUEUE, context=context, started_ns=sent_ns)
        way.end(now_ns)
    deployment = getattr(getattr(replica, "_deployment_id", None), "name", "")
    timing = recorder.start(
        f"replica {deployment}", kind=SpanKind.SERVER, context=context, started_ns=now_ns
    )
    timing.activate()
    return timing


def _take_ticket(recorder: Recorder, arguments: Arguments) -> None:
    """Take a ticket for what joins the queue of a `@serve.batch` function."""
    setattr(arguments["request"], _TICKET, new_ticket(recorder, None))


def time_batch(recorder: Recorder, original: Timed) -> Timed:
    @wraps(original)
    async def _process_batch_inner(self: object, func: Any, batch: Any) -> Any:
        waiting = [one for one in batch if not one.future.cancelled()]
        tickets = [vars(one).get(_TICKET) for one in waiting]
        return await original(self, _timed(recorder, func, tickets), batch)

    return _process_batch_inner


def _timed(recorder: Recorder, func: Any, tickets: list[Ticket | None]) -> Any:
    """The function of a batch, which Ray calls once for it."""

    def batch() -> AbstractContextManager[object]:
        return batch_of(recorder, tickets) or nullcontext()

    if isasyncgenfunction(func):

        @wraps(func)
        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with batch():
                async for results in func(*args, **kwargs):
                    yield results

        return stream

    if iscoroutinefunction(func):

        @wraps(func)
        async def call(*args: Any, **kwargs: Any) -> Any:
            with batch():
                return await func(*args, **kwargs)

        return call
    return func


class RayServeHook(Hook):
    """Times the way to a replica, its work, and its batches, each member in its own trace."""

    requires = ("ray >= 2.60",)
    patches = (
        Replacement(_COMMON, "RequestMetadata.__init__", _send),
        Replacement(_REPLICA, "Replica._tracing_context", time_replica),
        Replacement(_BATCHING, "_BatchQueue.put", before("joining a queue", _take_ticket)),
        Replacement(_BATCHING, "_BatchQueue._process_batch_inner", time_batch),
    )
