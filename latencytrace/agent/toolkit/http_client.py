"""One request to another service, however a client library makes it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import propagate
from opentelemetry.context import (
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY,  # what contrib's HTTP clients tell each other by
    Context,
    get_value,
    set_value,
)
from opentelemetry.trace import SpanKind

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import HookAttributes
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.model import semconv
from latencytrace.model.stage import Stage


class Exchange:
    """A request and its answer, until the body is read, closed or dropped.

    Args:
        recorder: Where its span goes.
        method: HTTP's.
        attributes: What is known before it is sent.
    """

    def __init__(self, recorder: Recorder, method: str, attributes: HookAttributes) -> None:
        self._recorder = recorder
        self._timing: Timing = recorder.start(
            method, Stage.NETWORK, attributes, kind=SpanKind.CLIENT
        )
        # One exchange, one span: what the library is built on adds none.
        self.context: Context = set_value(
            _SUPPRESS_HTTP_INSTRUMENTATION_KEY, value=True, context=self._timing.context()
        )
        self.headers: dict[str, str] = {}  # W3C's, to be sent
        propagate.inject(self.headers, self.context)

    def answered(self, status: int) -> None:
        """The headers are there; the body may be still to come."""
        with guarded("noting an answer", self._recorder.on_fault):
            self._timing.note({semconv.HTTP_RESPONSE_STATUS_CODE: status})
            if status >= 400:  # noqa: PLR2004 - HTTP's errors
                self._timing.note({semconv.ERROR_TYPE: str(status)})

    def fail(self, error: BaseException) -> None:
        """Note what the request raised, and end it."""
        with guarded("noting an exception", self._recorder.on_fault):
            self._timing.fail(error)
        self.end()

    def end(self) -> None:
        """End the span; a second time changes nothing."""
        with guarded("ending a request", self._recorder.on_fault):
            self._timing.end()


def is_within_exchange() -> bool:
    """Whether a request is made by a library whose own request is timed already."""
    return bool(get_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY))


def request_attributes(method: str, url: str) -> HookAttributes:
    """What a request says of itself; never the query: it may hold a secret or a prompt."""
    parts = urlsplit(url)
    return {
        semconv.HTTP_REQUEST_METHOD: method,
        semconv.SERVER_ADDRESS: parts.hostname or "",
        semconv.SERVER_PORT: parts.port or (443 if parts.scheme in {"https", "wss"} else 80),
        semconv.URL_SCHEME: parts.scheme,
        semconv.URL_PATH: parts.path,
    }


def with_headers(headers: Any, added: Mapping[str, str]) -> list[tuple[Any, Any]]:  # noqa: ANN401 - a mapping or pairs
    """Headers and more of them; those of the same name are replaced, as nobody wants two."""
    pairs = list(headers.items()) if hasattr(headers, "items") else list(headers or ())
    kept = [(name, value) for name, value in pairs if str(name).lower() not in added]
    return [*kept, *added.items()]
