"""Calls made with `grpc`, sync and asyncio, to the last message of the answer."""

import importlib
import weakref
from collections.abc import Callable, Iterable
from inspect import iscoroutinefunction
from typing import Any

from opentelemetry import propagate
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

Pairs = tuple[tuple[str, object], ...]

_CONTRIB = "opentelemetry.instrumentation.grpc"
_METADATA = 2  # its place among the arguments: request, timeout, metadata


class _Call:
    """One call under way, whichever of the four kinds.

    Its span is never current: nothing below it runs in Python but the program's own
    iterator of requests, whose calls are not part of this one.
    """

    def __init__(self, recorder: Recorder, method: str, target: str) -> None:
        self._recorder = recorder
        self._timing: Timing = recorder.start(
            method, Stage.NETWORK, _call_attributes(method, target), kind=SpanKind.CLIENT
        )

    def with_headers(self, metadata: Iterable[tuple[str, object]] | None) -> Pairs:
        """The program's metadata and W3C's, unless somebody has set those."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier, self._timing.context())
        pairs: Pairs = tuple(metadata or ())
        if carrier.keys() & {key for key, _ in pairs}:
            return pairs
        return (*pairs, *carrier.items())

    def returned(self, _: object) -> None:
        """The answer is there."""
        self.end("OK")

    def fail(self, error: BaseException) -> None:
        """Note what the call raised."""
        with guarded("noting an exception", self._recorder.on_fault):
            self._timing.fail(error)
        code = getattr(error, "code", None)
        self.end(_name(code()) if callable(code) else None)

    def end(self, code: str | None) -> None:
        """End the span with the name of its status; None: unknown."""
        with guarded("ending a call", self._recorder.on_fault):
            noted: HookAttributes = {}
            if code is not None:
                noted[semconv.RPC_RESPONSE_STATUS_CODE] = code
                if code != "OK":
                    noted[semconv.ERROR_TYPE] = code
                    self._timing.span.set_status(StatusCode.ERROR)
                if code == "CANCELLED":
                    noted[semconv.CANCELLED] = True
            self._timing.note(noted)
            self._timing.end()

    def watch(self, answer: Any) -> None:  # noqa: ANN401 - grpc's
        """End the span when the answer's last message was read, or it failed, or was dropped.

        Nothing here holds a reference to the answer, or makes it part of a cycle: one
        that the program drops must still be freed at once, which cancels the call.
        """
        with guarded("timing an answer", self._recorder.on_fault):
            made = getattr(answer, "_interceptors_task", None)
            below = getattr(answer, "_cython_call", None)
            end = self._ending(answer)
            if made is not None:  # asyncio's, where the program's interceptors make the call
                made.add_done_callback(self._watch_made)
            elif below is not None:  # asyncio's
                below.add_done_callback(end)
            elif not (hasattr(answer, "add_callback") and answer.add_callback(end)):
                end()

    def _watch_made(self, made: Any) -> None:  # noqa: ANN401 - a task
        if made.cancelled():
            self.end("CANCELLED")
        elif made.exception() is not None:
            self.fail(made.exception())
        else:
            self.watch(made.result())

    def _ending(self, answer: object) -> Callable[[], None]:
        reference = weakref.ref(answer)

        def end() -> None:
            with guarded("ending a call", self._recorder.on_fault):
                answer = reference()
                self.end("CANCELLED" if answer is None else _code_of(answer))

        return end


def _call_attributes(method: str, target: str) -> HookAttributes:
    attributes: HookAttributes = {semconv.RPC_SYSTEM_NAME: "grpc", semconv.RPC_METHOD: method}
    address, _, port = target.rpartition("/")[2].rpartition(":")
    if address and port.isdecimal():
        attributes[semconv.SERVER_ADDRESS] = address
        attributes[semconv.SERVER_PORT] = int(port)
    elif target:
        attributes[semconv.SERVER_ADDRESS] = target
    return attributes


def _name(code: object) -> str | None:
    """A status by its name; grpc has it as a member of an enum or as its number."""
    if isinstance(code, int):
        codes = importlib.import_module("grpc").StatusCode
        return next((str(known.name) for known in codes if known.value[0] == code), None)
    name = getattr(code, "name", None)
    return name if isinstance(name, str) else None


def _code_of(answer: Any) -> str | None:  # noqa: ANN401 - a call that is over
    status = getattr(getattr(answer, "_cython_call", None), "_status", None)
    if status is not None:  # asyncio's: its own `code` is a coroutine function
        return _name(status.code())
    return None if iscoroutinefunction(answer.code) else _name(answer.code())


def _begun(recorder: Recorder, callee: Any) -> _Call | None:  # noqa: ANN401 - grpc's multi-callable
    """A call that begins to be timed; None: contrib's interceptor times it."""
    with guarded("starting a call", recorder.on_fault):
        current = get_current_span()
        attributes = getattr(current, "attributes", None) or {}
        outside = getattr(current, "kind", None) is SpanKind.CLIENT and (
            semconv.RPC_SYSTEM_OLD in attributes or semconv.RPC_SYSTEM_NAME in attributes
        )
        inside = any(
            type(interceptor).__module__.startswith(_CONTRIB)
            for interceptor in getattr(callee, "_interceptors", None) or ()
        )
        if not (outside or inside or recorder.suppressed()):
            method, target = _text(callee, "_method"), _text(callee, "_target")
            return _Call(recorder, method.lstrip("/"), target)
    return None


def _text(callee: object, name: str) -> str:
    value = getattr(callee, name, "")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _replaced(
    call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments with our headers in their metadata."""
    if len(args) > _METADATA:
        metadata = call.with_headers(args[_METADATA])
        return (*args[:_METADATA], metadata, *args[_METADATA + 1 :]), kwargs
    return args, {**kwargs, "metadata": call.with_headers(kwargs.get("metadata"))}


def time_blocking(recorder: Recorder, original: Timed) -> Timed:
    """Time a call that returns with its one answer."""
    return _timed(recorder, original, _Call.returned)


def time_answer(recorder: Recorder, original: Timed) -> Timed:
    """Time a call that returns at once, with an answer that is still to come."""
    return _timed(recorder, original, _Call.watch)


def _timed(recorder: Recorder, original: Timed, returned: Callable[[_Call, Any], None]) -> Timed:
    def timed_call(self: object, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        call = _begun(recorder, self)
        if call is None:
            return original(self, *args, **kwargs)
        with guarded("sending a trace's headers", recorder.on_fault):
            args, kwargs = _replaced(call, args, kwargs)
        try:
            answer = original(self, *args, **kwargs)
        except BaseException as error:
            call.fail(error)
            raise
        returned(call, answer)
        return answer

    return timed_call


_SYNC = "grpc._channel"
_ASYNC = "grpc.aio._channel"


class GrpcClientHook(Hook):
    """Times calls where every channel makes them, below the program's interceptors if sync."""

    requires = ("grpcio >= 1.50",)
    patches = (
        Replacement(_SYNC, "_UnaryUnaryMultiCallable.__call__", time_blocking),
        Replacement(_SYNC, "_UnaryUnaryMultiCallable.with_call", time_blocking),
        Replacement(_SYNC, "_UnaryUnaryMultiCallable.future", time_answer),
        Replacement(_SYNC, "_UnaryStreamMultiCallable.__call__", time_answer),
        Replacement(_SYNC, "_SingleThreadedUnaryStreamMultiCallable.__call__", time_answer),
        Replacement(_SYNC, "_StreamUnaryMultiCallable.__call__", time_blocking),
        Replacement(_SYNC, "_StreamUnaryMultiCallable.with_call", time_blocking),
        Replacement(_SYNC, "_StreamUnaryMultiCallable.future", time_answer),
        Replacement(_SYNC, "_StreamStreamMultiCallable.__call__", time_answer),
        Replacement(_ASYNC, "UnaryUnaryMultiCallable.__call__", time_answer),
        Replacement(_ASYNC, "UnaryStreamMultiCallable.__call__", time_answer),
        Replacement(_ASYNC, "StreamUnaryMultiCallable.__call__", time_answer),
        Replacement(_ASYNC, "StreamStreamMultiCallable.__call__", time_answer),
    )
