"""A request that waits in its program for as long as a test wants."""

import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType

from opentelemetry.context import Context

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks.asgi import time_application
from latencytrace.agent.hooks.wsgi import time_application as time_wsgi
from latencytrace.agent.timing.runtime_gaps import RESULT
from latencytrace.agent.toolkit.http.server import ServedRequest
from latencytrace.model import semconv
from latencytrace.model.packed import unpack_named
from tests.support.agent.hooked import Spans
from tests.support.waiting import until

AT_LEAST_NS = 2_000_000  # more than is noted


async def serve(spans: Spans, endpoint: Callable[[], Awaitable[object]]) -> None:
    """Serve a request as the hook of ASGI does."""

    async def application(self: object, *_: object) -> None:
        await endpoint()

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    await time_application(spans.recorder, application)(None, scope, None, None)


def serve_wsgi(spans: Spans, endpoint: Callable[[], object]) -> None:
    """Serve a request as the hook of WSGI does."""

    def application(self: object, *_: object) -> list[bytes]:
        endpoint()
        return []

    time_wsgi(spans.recorder, application)(None, {"REQUEST_METHOD": "GET"}, print).close()


@contextmanager
def served(spans: Spans, *, on_loop: bool = True) -> Iterator[ServedRequest]:
    """Serve a request as long as the block."""
    request = ServedRequest(spans.recorder, "GET", {}, Context(), on_loop=on_loop)
    request.activate()
    try:
        yield request
    finally:
        request.deactivate()
        request.end()


def let_time_pass() -> None:
    """Return once a wait that goes on has been long enough."""
    since_ns = monotonic_ns()
    until(lambda: monotonic_ns() - since_ns >= AT_LEAST_NS)


def frames_of_threads() -> dict[int, FrameType]:
    """Return where each thread is.

    A collection while Python looks at the threads may let one run that waits for what it holds
    for that: in older ones both wait for ever.
    """
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        gc.enable()


def threads_in(function: object) -> int:
    """Return how many threads are in the first line of a function, in what C does there.

    Python lets others run nowhere else in that line.
    """
    assert isinstance(function, FunctionType)
    code = function.__code__
    at = [one for one in frames_of_threads().values() if one.f_code is code]
    return sum(one.f_lineno == code.co_firstlineno + 1 for one in at)


def results_ns(spans: Spans) -> int:
    """Return how long requests waited for what may be their own work."""
    packed = [str(span.attributes.get(semconv.RUNTIME_GAPS, "")) for span in spans.all]
    return sum(
        end_ns - start_ns
        for one in packed
        for name, start_ns, end_ns in unpack_named(one, 0)
        if name == RESULT
    )
