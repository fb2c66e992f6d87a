"""Prices of what hooks do on serving threads, measured in this process on the background thread.

To time each request would cost more than the request. So a few go through the real hooks here,
into nowhere, a few at a time between rests: caches are as cold then as between two requests.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final

from latencytrace.agent.budget.detail import LAST, Detail
from latencytrace.agent.clock import cpu_ns
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.native import sleep
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.timing.hook import Hook, Patch, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import beginning, timed
from latencytrace.model.stage import Stage

ASKS_REQUESTS: Final = "Starlette.__call__"  # that a replacement is known by which times requests
Build = Callable[[Recorder, Callable[..., Any]], Callable[..., Any]]
_STRETCHES: Final = 16
_CALLS: Final = 2  # at a stretch
_LEFT_OUT: Final = 2  # of the dearest stretches: garbage may have been collected within
_REST_S: Final = 1e-3
_CHUNKS: Final = 64
_CHUNK: Final = b"data: {}\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """CPU time on the serving thread, in nanoseconds."""

    call_ns: int = 0  # a timed call
    request_ns: int = 0  # a request that is served, without what it calls
    chunk_ns: int = 0  # of a stream
    least_ns: int = 0  # a request of which only its own span is recorded
    dropped_ns: int = 0  # a request of which nothing is


def times_requests(hooks: Iterable[type[Hook]]) -> Build | None:
    """Return what times the requests of an application; None: no hook does."""
    for hook in hooks:
        for patch in hook.patches:
            if isinstance(patch, Replacement) and patch.target == ASKS_REQUESTS:
                return patch.build
    return None


def measured_prices(build: Build | None) -> Prices:
    """Measure what hooks cost here and now.

    Args:
        build: Times requests; None: nothing does, so that each is priced as a call.
    """
    call_ns = _call_ns()
    if build is None:
        return Prices(call_ns=call_ns, request_ns=call_ns)
    untimed = _request_ns(_application, chunks=0)
    plain = _request_ns(build(_recorder(Detail()), _application), chunks=0)
    stream = _request_ns(build(_recorder(Detail()), _application), chunks=_CHUNKS)
    untimed_stream = _request_ns(_application, chunks=_CHUNKS)
    least = _request_ns(build(_recorder(Detail(control_ratio=1.0)), _application), chunks=0)
    sampled = Detail()
    sampled.set_step(LAST)
    dropped = _request_ns(build(_recorder(sampled), _application), chunks=0)
    chunks_ns = stream - untimed_stream - (plain - untimed)
    return Prices(
        call_ns=call_ns,
        request_ns=max(plain - untimed, 0),
        chunk_ns=max(chunks_ns // _CHUNKS, 0),
        least_ns=max(least - untimed, 0),
        dropped_ns=max(dropped - untimed, 0),
    )


def _recorder(detail: Detail) -> Recorder:
    provider = RecordingProvider()
    recorder = Recorder(provider.get_tracer("latencytrace"), raise_fault, detail)
    provider.configure(lambda _: None, roots=detail.root)
    return recorder


def _call_ns() -> int:
    recorder = _recorder(Detail())
    call = timed(
        _nothing, beginning(_nothing, Patch("latencytrace", "nothing", Stage.OTHER), recorder)
    )
    return _mean_ns(call)


def _request_ns(application: Callable[..., Any], *, chunks: int) -> int:
    def serve() -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "chunks": chunks}
        _run(application(None, scope, _receive, _send))

    return _mean_ns(serve)


def _mean_ns(call: Callable[[], object]) -> int:
    """Return what a call costs on average, a few at a time."""
    stretches_ns = []
    call()  # what is made once is not its price
    for _ in range(_STRETCHES):
        sleep(_REST_S)  # who wants the interpreter gets it
        began_ns = cpu_ns()
        for _ in range(_CALLS):
            call()
        stretches_ns.append(cpu_ns() - began_ns)
    usual_ns = sorted(stretches_ns)[: _STRETCHES - _LEFT_OUT]
    return sum(usual_ns) // (len(usual_ns) * _CALLS)


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run what never waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()


async def _application(_self: object, scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's
    """Answer at once, in one piece or as a stream."""
    await receive()
    kind = b"text/event-stream" if scope["chunks"] else b"application/json"
    start = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]}
    await send(start)
    for _ in range(scope["chunks"]):
        await send({"type": "http.response.body", "body": _CHUNK, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send(_message: object) -> None:
    """Take a message."""


def _nothing() -> None:
    """Stand for what a hook times."""
