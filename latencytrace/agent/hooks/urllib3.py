"""Requests made with `urllib3` itself, to the last byte of the body."""

import weakref
from functools import wraps
from typing import Any

from latencytrace.agent.context import enter, leave
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http_client import (
    Exchange,
    is_within_exchange,
    request_attributes,
    with_headers,
)


def _begun(recorder: Recorder, pool: Any, method: str, url: str) -> Exchange | None:  # noqa: ANN401 - urllib3's
    with guarded("starting a request", recorder.on_fault):
        if not recorder.suppressed() and not is_within_exchange():
            address = f"{pool.scheme}://{pool.host}:{pool.port}{url}" if url[:1] == "/" else url
            return Exchange(recorder, method, request_attributes(method, address))
    return None


def _end_with_body(response: Any, exchange: Exchange) -> None:  # noqa: ANN401
    """End the exchange when the body's connection is free again, or the answer is dropped."""
    reference, release = weakref.ref(response), type(response).release_conn

    def release_conn() -> None:
        body = reference()
        if body is not None:
            release(body)
        exchange.end()

    response.release_conn = release_conn
    weakref.finalize(response, exchange.end).atexit = False


def time_urlopen(recorder: Recorder, original: Timed) -> Timed:
    """Time one request with its retries and redirects."""

    @wraps(original)
    def urlopen(
        self: Any,  # noqa: ANN401
        method: str,
        url: str,
        body: Any = None,  # noqa: ANN401
        headers: Any = None,  # noqa: ANN401
        *args: Any,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        exchange = _begun(recorder, self, method, url)
        if exchange is None:
            return original(self, method, url, body, headers, *args, **kwargs)
        sent = dict(with_headers(self.headers if headers is None else headers, exchange.headers))
        token = enter(exchange.context)
        try:
            response = original(self, method, url, body, sent, *args, **kwargs)
        except BaseException as error:
            exchange.fail(error)
            raise
        finally:
            leave(token)
        exchange.answered(response.status)
        if kwargs.get("preload_content", True):
            exchange.end()
        else:
            with guarded("timing an answer's body", recorder.on_fault):
                _end_with_body(response, exchange)
        return response

    return urlopen


class Urllib3Hook(Hook):
    """Times the one method that every request of a pool goes through."""

    requires = ("urllib3 >= 1.26",)
    patches = (Replacement("urllib3.connectionpool", "HTTPConnectionPool.urlopen", time_urlopen),)
