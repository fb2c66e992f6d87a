"""Requests made with `urllib3` itself, to the last byte of the body."""

from collections.abc import Mapping
from typing import Any, Self

from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http.client import (
    ClientCall,
    is_within_call,
    request_attributes,
    timed_calls,
    with_headers,
)


class _Call(ClientCall):
    """One request with its retries and redirects."""

    headers_argument = "headers"
    follows = 175

    @classmethod
    def begin(cls, recorder: Recorder, arguments: Arguments) -> Self | None:
        """Begin, unless a library that is built on urllib3 has."""
        if is_within_call():
            return None
        pool: Any = arguments["self"]
        method, url = str(arguments["method"]), str(arguments["url"])
        port = f":{pool.port}" if pool.port else ""  # a pool may leave it to the scheme
        address = f"{pool.scheme}://{pool.host}{port}{url}" if url[:1] == "/" else url
        call = cls(recorder, method, request_attributes(method, address), arguments["body"])
        own: Any = arguments["headers"]
        own = pool.headers if own is None else own
        call.headers = _sent(own, call.added_to(own, ignores_case=hasattr(own, "getlist")))
        return call

    def returned(self, answer: Any) -> None:
        """End with the body, unless it was read already."""
        self.note_status(answer.status, answer.headers)
        is_closed = getattr(answer, "isclosed", None)  # HTTP/2's has none, and is whole
        if is_closed is None or is_closed():
            if self.model is not None:
                self.model.part(answer.data)
            self.end()
        else:
            self.end_with_connection(answer)


def _sent(own: Any, added: Mapping[str, str]) -> Any:
    """Add headers to those of a request; urllib3's own kind may have several of one name."""
    if not hasattr(own, "getlist"):
        return dict(with_headers(own, added))
    sent = own.copy()
    for name, value in added.items():
        sent[name] = value
    return sent


class Urllib3Hook(Hook):
    """Times the one method that every request of a pool goes through."""

    requires = ("urllib3 >= 1.26",)
    patches = (
        Replacement("urllib3.connectionpool", "HTTPConnectionPool.urlopen", timed_calls(_Call)),
    )
