"""Requests that Robyn's server, which is written in Rust, calls a program's handlers for."""

from functools import wraps
from typing import Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import UNDO, Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import timed_coroutine, timed_function
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.server import ServedRequest
from latencytrace.model import semconv


class _Request(ServedRequest):
    """One request, while its handler runs.

    Args:
        request: Robyn's; None: the handler takes no arguments, and gets none.
    """

    def __init__(self, recorder: Recorder, route: Any, request: Any, *, on_loop: bool) -> None:
        method = str(route.route_type).rpartition(".")[2]
        attributes: HookAttributes = {semconv.HTTP_REQUEST_METHOD: method}
        headers: dict[str, str] = {}
        if request is not None:
            attributes[semconv.URL_PATH] = str(request.url.path)
            found = {name: request.headers.get(name) for name in propagation.propagator().fields}
            headers = {name: str(value) for name, value in found.items() if value is not None}
        caller = propagation.extract(headers)
        super().__init__(recorder, method, attributes, caller, on_loop=on_loop)
        self._route = str(route.route)

    def route(self) -> str | None:
        """Return the template that its handler is for."""
        return self._route

    def finish(self, answer: Any) -> None:
        """End with what the handler returned; Robyn makes an answer of anything."""
        with guarded("noting an answer", self.recorder.on_fault):
            self.note_status(int(getattr(answer, "status_code", 200)))
        self.end()

    def fail(self, error: BaseException) -> None:
        """Note what it raised, which Robyn answers with an error of the server's."""
        super().fail(error)
        self.end()


class _Handlers:
    """The functions that a program's routes call, timed."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._timed: list[tuple[Any, Timed, Timed]] = []

    def time(self, route: Any) -> None:
        """Time the handler of a route; that of a constant one is called when the server starts."""
        if route.is_const:
            return
        called, recorder = route.function, self._recorder
        handler, is_async = called.handler, called.is_async

        def begin(args: tuple[Any, ...], _: dict[str, Any]) -> _Request | None:
            if recorder.suppressed():
                return None
            request = next((one for one in args if hasattr(one, "headers")), None)
            return _Request(recorder, route, request, on_loop=is_async)

        timed = (timed_coroutine if is_async else timed_function)(handler, begin)
        called.handler = timed
        self._timed.append((called, handler, timed))

    def restore(self) -> None:
        """Have the program's own called again."""
        while self._timed:
            called, handler, timed = self._timed.pop()
            if called.handler is timed:
                called.handler = handler


def time_routes(recorder: Recorder, original: Timed) -> Timed:
    handlers = _Handlers(recorder)

    @wraps(original)
    def add_route(self: Any, *args: Any, **kwargs: Any) -> Any:
        added = original(self, *args, **kwargs)
        with guarded("timing a handler", recorder.on_fault):
            handlers.time(self.routes[-1])
        return added

    setattr(add_route, UNDO, handlers.restore)
    return add_route


class RobynHook(Hook):
    """Times the handlers of routes; requests are read, and answers sent, outside of Python."""

    requires = ("robyn >= 0.72",)
    patches = (Replacement("robyn.router", "Router.add_route", time_routes),)
