"""One call of another service, however a client library makes it."""

import sys
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import Token
from functools import lru_cache, wraps
from inspect import iscoroutinefunction, signature
from typing import Any, ClassVar, Final, Self
from urllib.parse import SplitResult, urlsplit

from opentelemetry.context import (
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY,  # by which contrib's HTTP clients know of each other
    Context,
    get_value,
)
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # what set_span_in_context sets, four calls deep
)

from latencytrace.agent.context import current, enter, leave
from latencytrace.agent.guard import FAULTS, guarded
from latencytrace.agent.timing.costs import SampledCall
from latencytrace.agent.timing.hook import Arguments, HookAttributes, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing, is_suppressed
from latencytrace.agent.timing.wrapping import (
    BeginTimed,
    named_arguments,
    timed_coroutine,
    timed_function,
)
from latencytrace.agent.toolkit.drops import when_dropped
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.propagation import CALLER
from latencytrace.agent.toolkit.models.plain_http import model_asked
from latencytrace.agent.toolkit.other_tracers import is_theirs
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_FIRST_ERROR = 400
_new: Final = object.__new__
_CLIENT: Final = SpanKind.CLIENT  # which takes longer to look up than to use
_NETWORK: Final = Stage.NETWORK.value
_PORTS = {"https": 443, "wss": 443}
_OUR_HEADERS = "latencytrace's headers"  # a keyword that no call has
_sent: Final[deque[str]] = deque(maxlen=1024)  # what we wrote: a request may be sent again


class ClientCall:
    """A request and its answer, until the body is read, closed or dropped.

    A library has a class of its own, which knows how a call begins and what it returned.

    Args:
        name: Of the span: HTTP's method.
        attributes: What is known before it is sent.
        body: Of the request, as the program gave it; None: unknown.
    """

    headers_argument: ClassVar[str | None] = None  # takes `headers`; None: `begin` sends them
    has_ended = False
    sampled: SampledCall | None = None  # None: its cost is not measured
    _token: Token[Context] | None = None
    covers: ClassVar[bool] = True  # one call, one span: what the library is built on adds none
    # What the library does for one header more, as `HookCost` has it; by `bench_account.py`.
    follows: ClassVar[int] = 0

    def __init__(
        self, recorder: Recorder, name: str, attributes: HookAttributes, body: object = None
    ) -> None:
        self.recorder = recorder
        self.model = model = model_asked(recorder, attributes, body)  # None: none
        here = current() if model is None else model.context()
        attributes[semconv.STAGE] = _NETWORK  # else it is copied for that
        if recorder.detail.spares:
            timing = recorder.start(name, None, attributes, kind=_CLIENT, context=here)
        else:
            timing = _new(Timing)
            recorder.start_call(timing, name, attributes, here, _CLIENT)
        self.timing = timing
        entries = {**here, _SPAN_KEY: timing.span}
        if self.covers:  # neither what the library is built on nor contrib adds a span of it
            entries[_SUPPRESS_HTTP_INSTRUMENTATION_KEY] = True
        self.context: Context | None = (context := Context(entries))
        headers: dict[str, str] = {}  # to be sent
        self.headers: Any = headers
        patterns = recorder.propagate_to
        if not patterns or propagation.goes_to(_host_of(attributes), patterns):
            propagation.inject(headers, context)
            if CALLER in headers:
                _sent.append(headers[CALLER])

    def added_to(self, own: Any, *, ignores_case: bool = False) -> Mapping[str, str]:
        """Return the headers to be sent with a request's own: none if it names a caller itself.

        Args:
            own: A mapping, or pairs; None: it has none.
            ignores_case: Whether `own` does, so that it need not be gone through.
        """
        headers: Mapping[str, str] = self.headers
        if not own or (ignores_case and CALLER not in own):
            return headers
        pairs = own.items() if hasattr(own, "items") else own
        named = [str(value) for name, value in pairs if str(name).lower() == CALLER]
        return headers if all(one in _sent for one in named) else {}

    @classmethod
    def begin(cls, recorder: Recorder, arguments: Arguments) -> Self | None:
        """Begin to time a call of the library with these arguments; None: leave it alone."""
        raise NotImplementedError

    def returned(self, answer: Any) -> None:
        """Note what the call returned, and end with it, or with a body that is to come."""
        self.end()

    def activate(self) -> None:
        """Make the call's span current."""
        try:
            if self.context is not None:
                self._token = enter(self.context)
        except FAULTS as fault:
            self.recorder.on_fault("making a call current", fault)

    def deactivate(self) -> None:
        """Make the span before it current again."""
        token, self._token = self._token, None
        try:
            if token is not None:
                leave(token)
        except FAULTS as fault:
            self.recorder.on_fault("leaving a call", fault)

    def finish(self, answer: object) -> None:
        """Note that the call returned."""
        try:
            self.returned(answer)
        except FAULTS as fault:
            self.recorder.on_fault("timing an answer", fault)
            self.end()

    def fail(self, error: BaseException) -> None:
        """Note what the call or the reading of its body raised, and end it."""
        with guarded("noting an exception", self.recorder.on_fault):
            self.timing.fail(error)
            if self.model is not None:
                self.model.failed(error)
        self.end()

    def end(self) -> None:
        """End the span; a second time changes nothing."""
        if self.has_ended:
            return
        self.has_ended = True
        try:
            if self.sampled is None:
                self.ended()
            else:
                self.sampled.timed(self.ended)
        except FAULTS as fault:
            self.recorder.on_fault("ending a call", fault)

    def ended(self) -> None:
        """Note what is known of a call only now, and end its span."""
        self.timing.end()
        if self.model is not None:
            self.model.end()

    def note_status(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        """Note HTTP's status; the body may be still to come.

        Args:
            headers: Headers of the answer, for what they say of a model.
        """
        if self.model is not None:
            self.model.answers(status, headers or {})
        self.timing.span.set_attribute(semconv.HTTP_RESPONSE_STATUS_CODE, status)
        if status >= _FIRST_ERROR:
            self.timing.note({semconv.ERROR_TYPE: str(status)})
            self.timing.span.set_status(StatusCode.ERROR)

    def end_with(self, body: object) -> None:
        """End at the latest when the program drops a body."""
        when_dropped(body, self.end)

    def end_with_connection(self, body: Any) -> None:
        """End when a body's connection is free again: it was read, closed or broke off."""
        reference, release = weakref.ref(body), type(body).release_conn

        def release_conn() -> None:
            body = reference()
            if body is not None:
                release(body)
            error = sys.exception()
            if error is not None and type(error).__module__.startswith("urllib3."):
                self.fail(error)
            else:
                self.end()

        body.release_conn = release_conn
        self.end_with(body)
        if self.model is not None:
            self.model.reads(body)


def timed_calls(kind: type[ClientCall]) -> Callable[[Recorder, Timed], Timed]:
    """Build what times the calls of a library's function, sync or async."""

    def build(recorder: Recorder, original: Timed) -> Timed:
        if is_theirs(original):
            return original
        timed = timed_coroutine if iscoroutinefunction(original) else timed_function
        begin = _beginning(kind, recorder, original)
        return timed(_with_our_headers(kind, original), begin, kind.follows)

    return build


def _beginning(kind: type[ClientCall], recorder: Recorder, original: Timed) -> BeginTimed:
    """Return what begins to time a call, and adds our headers to its keywords."""
    arguments_of = named_arguments(original)
    adds_headers = kind.headers_argument is not None

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ClientCall | None:
        try:
            if is_suppressed(current()):
                return None
            call = kind.begin(recorder, arguments_of(args, kwargs))
            if call is not None and adds_headers:
                kwargs[_OUR_HEADERS] = call.headers
        except FAULTS as fault:
            recorder.on_fault("starting a call", fault)
            return None
        return call

    return begin


def _with_our_headers(kind: type[ClientCall], original: Timed) -> Timed:
    """Return the function that sends our headers, where there are some, in place of its own."""
    name = kind.headers_argument
    if name is None:
        return original
    at = list(signature(original).parameters).index(name)

    @wraps(original)
    def sent(*args: Any, **kwargs: Any) -> Any:
        ours = kwargs.pop(_OUR_HEADERS, None)
        if ours is not None and len(args) > at:
            args = (*args[:at], ours, *args[at + 1 :])
        elif ours is not None:
            kwargs[name] = ours
        return original(*args, **kwargs)

    return sent


def _host_of(attributes: HookAttributes) -> str:
    return str(attributes.get(semconv.SERVER_ADDRESS, ""))


def is_within_call() -> bool:
    """Say whether a request is made by a library with a timed call of its own."""
    return bool(get_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY))


def request_attributes(method: str, url: str) -> HookAttributes:
    """Attributes of a request; never the query: it may hold a secret or a prompt."""
    scheme, place, path, _, _ = urlsplit(url)
    host, port = _server_at(scheme, place)
    return {
        semconv.HTTP_REQUEST_METHOD: method,
        semconv.SERVER_ADDRESS: host,
        semconv.SERVER_PORT: port,
        semconv.URL_SCHEME: scheme,
        semconv.URL_PATH: path,
    }


@lru_cache(maxsize=1024)
def _server_at(scheme: str, place: str) -> tuple[str, int]:
    """Return host and port of an address; its parts are looked for once."""
    parts = SplitResult(scheme, place, "", "", "")
    return parts.hostname or "", parts.port or _PORTS.get(scheme, 80)


def with_headers(headers: Any, added: Mapping[str, str]) -> list[tuple[Any, Any]]:
    """Headers and more of them; headers of the same name are replaced."""
    if not headers:
        return list(added.items())
    pairs = list(headers.items()) if hasattr(headers, "items") else list(headers)
    kept = [(name, value) for name, value in pairs if str(name).lower() not in added]
    return [*kept, *added.items()]
