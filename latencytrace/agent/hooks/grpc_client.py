"""Calls made with `grpc`, sync and asyncio, to the last message of the answer."""

import importlib
import weakref
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, Self

from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http.client import ClientCall, timed_calls
from latencytrace.model import semconv

_CONTRIB = "opentelemetry.instrumentation.grpc"


class _Call(ClientCall):
    """One call that returns with its one answer.

    Its span is never current: nothing below it runs in Python but the program's own
    iterator of requests: what it calls is not part of this call.
    """

    headers_argument = "metadata"
    covers = False

    @classmethod
    def begin(cls, recorder: Recorder, arguments: Arguments) -> Self | None:
        """Begin, unless contrib's interceptor times the call; headers that are set stay."""
        callee: Any = arguments["self"]
        if _is_traced(callee):
            return None
        method, target = _text(callee, "_method").lstrip("/"), _text(callee, "_target")
        call = cls(recorder, method, _call_attributes(method, target))
        call.context = None
        metadata: Any = arguments.get("metadata")
        pairs = tuple(metadata or ())
        is_set = call.headers.keys() & {key for key, _ in pairs}
        call.headers = pairs if is_set else (*pairs, *call.headers.items())
        return call

    def returned(self, answer: Any) -> None:
        self.end_as("OK")

    def fail(self, error: BaseException) -> None:
        """Note what the call raised."""
        with guarded("noting an exception", self.recorder.on_fault):
            self.timing.fail(error)
        code = getattr(error, "code", None)
        self.end_as(_name(code()) if callable(code) else None)

    def end_as(self, code: str | None) -> None:
        """End the span with the name of its status; None: unknown."""
        with guarded("ending a call", self.recorder.on_fault):
            noted: HookAttributes = {}
            if code is not None:
                noted[semconv.RPC_RESPONSE_STATUS_CODE] = code
                if code != "OK":
                    noted[semconv.ERROR_TYPE] = code
                    self.timing.span.set_status(StatusCode.ERROR)
                if code == "CANCELLED":
                    noted[semconv.CANCELLED] = True
            self.timing.note(noted)
            self.timing.end()


class _StreamedCall(_Call):
    """One call that returns at once, with an answer that is still to come."""

    def returned(self, answer: Any) -> None:
        """End when the answer's last message was read, or it failed, or was dropped.

        Nothing here holds a reference to the answer, or makes it part of a cycle: one
        that the program drops must still be freed at once, which cancels the call.
        """
        made = getattr(answer, "_interceptors_task", None)
        below = getattr(answer, "_cython_call", None)
        end = self._ending(answer)
        if made is not None:  # asyncio's, where the program's interceptors make the call
            made.add_done_callback(self._returned_later)
        elif below is not None:  # asyncio's
            below.add_done_callback(end)
        elif not (hasattr(answer, "add_callback") and answer.add_callback(end)):
            end()

    def _returned_later(self, made: Any) -> None:
        if made.cancelled():
            self.end_as("CANCELLED")
        elif made.exception() is not None:
            self.fail(made.exception())
        else:
            self.finish(made.result())

    def _ending(self, answer: object) -> Callable[[], None]:
        reference = weakref.ref(answer)

        def end() -> None:
            with guarded("ending a call", self.recorder.on_fault):
                answer = reference()
                self.end_as("CANCELLED" if answer is None else _code_of(answer))

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


def _code_of(answer: Any) -> str | None:
    status = getattr(getattr(answer, "_cython_call", None), "_status", None)
    if status is not None:  # asyncio's: its own `code` is a coroutine function
        return _name(status.code())
    return None if iscoroutinefunction(answer.code) else _name(answer.code())


def _is_traced(callee: Any) -> bool:
    """Say whether contrib's interceptor times its calls, outside of it or within."""
    current = get_current_span()
    attributes = getattr(current, "attributes", None) or {}
    if getattr(current, "kind", None) is SpanKind.CLIENT and (
        semconv.RPC_SYSTEM_OLD in attributes or semconv.RPC_SYSTEM_NAME in attributes
    ):
        return True
    interceptors = getattr(callee, "_interceptors", None) or ()
    return any(type(each).__module__.startswith(_CONTRIB) for each in interceptors)


def _text(callee: object, name: str) -> str:
    value = getattr(callee, name, "")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _calls(module: str, kind: type[_Call], *targets: str) -> tuple[Replacement, ...]:
    return tuple(Replacement(module, target, timed_calls(kind)) for target in targets)


class GrpcClientHook(Hook):
    """Times calls where every channel makes them, below the program's interceptors if sync."""

    requires = ("grpcio >= 1.50",)
    patches = (
        *_calls(
            "grpc._channel",
            _Call,
            "_UnaryUnaryMultiCallable.__call__",
            "_UnaryUnaryMultiCallable.with_call",
            "_StreamUnaryMultiCallable.__call__",
            "_StreamUnaryMultiCallable.with_call",
        ),
        *_calls(
            "grpc._channel",
            _StreamedCall,
            "_UnaryUnaryMultiCallable.future",
            "_UnaryStreamMultiCallable.__call__",
            "_SingleThreadedUnaryStreamMultiCallable.__call__",
            "_StreamUnaryMultiCallable.future",
            "_StreamStreamMultiCallable.__call__",
        ),
        *_calls(
            "grpc.aio._channel",
            _StreamedCall,
            "UnaryUnaryMultiCallable.__call__",
            "UnaryStreamMultiCallable.__call__",
            "StreamUnaryMultiCallable.__call__",
            "StreamStreamMultiCallable.__call__",
        ),
    )
