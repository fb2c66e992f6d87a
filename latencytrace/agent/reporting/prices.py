"""Prices of what hooks do on serving threads, measured in this process on the background thread.

To time each request would cost more than the request. So a few go through the real hooks here,
into nowhere, a few at a time between rests. That finds what a request takes with caches as cold as
such a rest leaves them; how much colder they are between two requests of the program, its own
sampled requests tell (`timing/costs.py`), as they do what each kind of call takes.
"""

from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from typing import Any, Final

from opentelemetry.trace import NoOpTracer, Tracer

from latencytrace.agent.budget.detail import LAST, Detail
from latencytrace.agent.clock import cpu_ns, monotonic_ns
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.native import sleep
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.timing.costs import HookCost, apart, learn_clock
from latencytrace.agent.timing.hook import Hook, Patch, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import beginning, never, timed
from latencytrace.agent.toolkit.http.arrival import ARRIVED
from latencytrace.model.stage import Stage

TIMES_REQUESTS: Final = "Starlette.__call__"  # that replacements are known by
TIMES_CALLBACKS: Final = "Handle._run"
SCHEDULES_CALLBACKS: Final = "BaseEventLoop._call_soon"
Build = Callable[[Recorder, Callable[..., Any]], Callable[..., Any]]
_STRETCHES: Final = 16
_CALLS: Final = 2  # at a stretch
_FEW_CALLS: Final = 4  # at a stretch, of what is short
_SMALL_CALLS: Final = 16  # calls in a row, of what comes often and is over soon
_FEW_STRETCHES: Final = 6  # of streams, whose chunks come one after another
_LEFT_OUT: Final = 2  # of the dearest stretches: garbage may have been collected within
_REST_S: Final = 1e-3
_CHUNKS: Final = 200
_UNTRACED: Final = NoOpTracer()
_is_hurried: ContextVar[Callable[[], bool]] = ContextVar("latencytrace.is_hurried")
# As models' servers send them: its output is found in the first, which tells how to read the rest.
_CHUNK: Final = b'data: {"choices":[{"index":0,"delta":{"content":" word"}}]}\n\n'
# As a server makes it of a usual request: what hooks read of it is part of their price.
_SCOPE: Final[dict[str, Any]] = {
    "type": "http",
    "http_version": "1.1",
    "server": ("127.0.0.1", 80),
    "client": ("127.0.0.1", 50000),
    "scheme": "http",
    "root_path": "",
    "method": "POST",
    "path": "/",
    "raw_path": b"/",
    "query_string": b"",
    "headers": [
        (name, b"")
        for name in (b"host", b"user-agent", b"accept", b"content-type", b"content-length")
    ],
}
_MANY: Final[tuple[str, ...]] = ("header",) * 100
_LOOKED: Final = 6 * len(_MANY)  # instructions, by any Python's compiler about as many


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """CPU time on the serving thread, in nanoseconds."""

    call_ns: int = 0  # a timed call that has no price of its own yet, and a stage
    wrapper_ns: int = 0  # of a timed call, the function in its place
    instruction_ns: float = 0.0  # of bytecode, as what follows a call executes
    span_ns: int = 0  # that the program makes, more than OpenTelemetry's interface takes untraced
    callback_ns: int = 0  # of an event loop
    sections_ns: int = 0  # of a request, what samples of the program's have too
    request_ns: int = 0  # a request that is served, without what it calls
    chunk_ns: int = 0  # of a stream
    least_ns: int = 0  # a request of which only its own span is recorded
    dropped_ns: int = 0  # a request of which nothing is


def built_by(hooks: Iterable[type[Hook]], target: str) -> Build | None:
    """Return what builds the function in the place of another; None: no hook does."""
    for hook in hooks:
        for patch in hook.patches:
            if isinstance(patch, Replacement) and patch.target == target:
                return patch.build
    return None


class _HurriedError(Exception):
    """A caller waits for the thread that measures."""


def measured_prices(
    hooks: Callable[[], Iterable[type[Hook]]], is_hurried: Callable[[], bool] = lambda: False
) -> Prices | None:
    """Measure what hooks cost here and now.

    Args:
        hooks: Loads the hooks that may time requests and callbacks of event loops. Without one for
            requests each is priced as a call.
        is_hurried: Tells whether a caller waits for this thread; it is asked at each rest.

    Returns:
        The prices; None: a caller waits.
    """
    token = _is_hurried.set(is_hurried)
    try:
        with apart() as made:
            _rest()
            given = tuple(hooks())
            learn_clock()
            prices = _prices_of_calls(given)
            build = built_by(given, TIMES_REQUESTS)
            if build is None:
                return replace(prices, request_ns=prices.call_ns)
            return _with_requests(prices, build, made)
    except _HurriedError:
        return None
    finally:
        _is_hurried.reset(token)


def _rest() -> None:
    """Let other threads have the interpreter."""
    sleep(_REST_S)
    if _is_hurried.get()():
        raise _HurriedError


def _prices_of_calls(hooks: Iterable[type[Hook]]) -> Prices:
    """Measure what is no request."""
    recorder = _recorder(Detail())
    nothing = Patch("latencytrace", "nothing", Stage.OTHER)
    call_ns = _mean_ns(timed(_nothing, beginning(_nothing, nothing, recorder)))
    never_timed = timed(_nothing_async, never)
    wrapper_ns = _added_ns(lambda: _run(never_timed()), lambda: _run(_nothing_async()))
    tracer = recorder.tracer

    def span_by(tracer: Tracer) -> None:
        with tracer.start_as_current_span("span"):
            pass

    callback_ns = 0
    runs, schedules = (built_by(hooks, one) for one in (TIMES_CALLBACKS, SCHEDULES_CALLBACKS))
    if runs is not None and schedules is not None:
        recorder.open_requests.serves = True
        run, schedule, handle = runs(recorder, _takes), schedules(recorder, _takes), _Handle()
        callback_ns = _added_ns(lambda: run(schedule(handle)), lambda: _takes(_takes(handle)))
    return Prices(
        call_ns=call_ns,
        wrapper_ns=wrapper_ns,
        instruction_ns=_small_ns(_look_through) / _LOOKED,
        span_ns=max(_small_ns(lambda: span_by(tracer)) - _small_ns(lambda: span_by(_UNTRACED)), 0),
        callback_ns=callback_ns,
    )


def _with_requests(prices: Prices, build: Build, made: list[HookCost]) -> Prices:
    untimed = _request_ns(_application, chunks=0)
    plain = _request_ns(build(_recorder(Detail()), _application), chunks=0)
    stream = _request_ns(build(_recorder(Detail()), _application), chunks=_CHUNKS)
    untimed_stream = _request_ns(_application, chunks=_CHUNKS)
    least = _request_ns(build(_recorder(Detail(control_ratio=1.0)), _application), chunks=0)
    sampled = Detail()
    sampled.set_step(LAST)
    dropped = _request_ns(build(_recorder(sampled), _application), chunks=0)
    chunks_ns = stream - untimed_stream - (plain - untimed)
    return replace(
        prices,
        request_ns=max(plain - untimed, 0),
        chunk_ns=max(chunks_ns // _CHUNKS, 0),
        least_ns=max(least - untimed, 0),
        dropped_ns=max(dropped - untimed, 0),
        sections_ns=_sections_ns(build, made),
    )


def _sections_ns(build: Build, made: list[HookCost]) -> int:
    """Return what the sections take of a request here that samples of the program's have, too."""
    application = build(_recorder(Detail()), _application)
    cost = made[-1]

    def serve() -> None:
        cost.left = 1  # each of them is a sample
        _serve(application, 0)

    _mean_ns(serve)
    return round(cost.ns or 0)


def _recorder(detail: Detail) -> Recorder:
    provider = RecordingProvider()
    recorder = Recorder(provider.get_tracer("latencytrace"), raise_fault, detail)
    provider.configure(lambda _: None, roots=detail.root)
    return recorder


def _request_ns(application: Callable[..., Any], *, chunks: int) -> int:
    if chunks:
        return _mean_ns(lambda: _serve(application, chunks), calls=1, stretches=_FEW_STRETCHES)
    return _mean_ns(lambda: _serve(application, 0))


def _serve(application: Callable[..., Any], chunks: int) -> None:
    scope = {**_SCOPE, ARRIVED: monotonic_ns(), "chunks": chunks}
    _run(application(None, scope, _receive, _send))


def _small_ns(call: Callable[[], object]) -> int:
    return _mean_ns(call, calls=_SMALL_CALLS)


def _added_ns(call: Callable[[], object], without: Callable[[], object]) -> int:
    """Return what a call costs more than one without ours, a few of each by turns.

    Both are short, and the machine's speed changes: each difference is that of two neighbours,
    and those that were disturbed lie at both ends. Not many calls in a row: the program's own
    code lies between two of them.
    """
    differences_ns = []
    call(), without()
    for _ in range(_STRETCHES):
        took_ns = _stretch_ns(call, _FEW_CALLS) - _stretch_ns(without, _FEW_CALLS)
        differences_ns.append(took_ns)
    usual_ns = sorted(differences_ns)[_STRETCHES // 4 : -_STRETCHES // 4]
    return max(sum(usual_ns) // (len(usual_ns) * _FEW_CALLS), 0)


def _stretch_ns(call: Callable[[], object], calls: int) -> int:
    """Return what some calls take together, after a rest."""
    _rest()
    began_ns = cpu_ns()
    for _ in range(calls):
        call()
    return cpu_ns() - began_ns


def _mean_ns(
    call: Callable[[], object], *, calls: int = _CALLS, stretches: int = _STRETCHES
) -> int:
    """Return what a call costs on average, a few at a time."""
    call()  # what is made once is not its price
    stretches_ns = [_stretch_ns(call, calls) for _ in range(stretches)]
    usual_ns = sorted(stretches_ns)[: stretches - _LEFT_OUT]
    return sum(usual_ns) // (len(usual_ns) * calls)


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run what never waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()


async def _application(_self: object, scope: dict[str, Any], receive: Any, send: Any) -> None:
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


async def _nothing_async() -> None:
    """Stand for what is awaited."""


def _look_through() -> list[str]:
    """Stand for a client that goes through its headers."""
    return [name for name in _MANY if name == ARRIVED]


class _Handle:
    """Stands for a callback of an event loop."""

    __slots__ = ("__weakref__", "_context")
    _source_traceback = None  # a loop's in debug mode has one

    def __init__(self) -> None:
        self._context = copy_context()


def _takes(handle: _Handle) -> _Handle:
    """Stand for what runs a callback, and for what schedules one."""
    return handle
