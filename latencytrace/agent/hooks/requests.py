"""Requests made with `requests`, to the last byte of the body."""

from typing import Any, Self

from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.client import (
    ClientCall,
    is_within_call,
    request_attributes,
    timed_calls,
)


class _Call(ClientCall):
    """One request with its redirects, until the last body is read, closed or dropped."""

    follows = 205

    @classmethod
    def begin(cls, recorder: Recorder, arguments: Arguments) -> Self | None:
        """Begin with a request that is no redirect of a timed one."""
        request: Any = arguments["request"]
        if _is_redirect(recorder, request):
            return None
        attributes = request_attributes(request.method, request.url)
        call = cls(recorder, request.method, attributes, request.body)
        headers = request.headers
        added = call.added_to(headers, ignores_case=not isinstance(headers, dict))
        for name, value in added.items():  # a third of what `update` takes
            headers[name] = value
        return call

    def returned(self, answer: Any) -> None:
        """End with the body, unless it was read already."""
        self.note_status(answer.status_code, answer.headers)
        if self.model is not None and answer._content_consumed:
            self.model.part(answer.content)
        if answer._content_consumed or not hasattr(answer.raw, "release_conn"):
            self.end()
        else:
            self.end_with_connection(answer.raw)


def _is_redirect(recorder: Recorder, request: Any) -> bool:
    """Look for the first request's headers, which a request of the program's own hook has not."""
    if not is_within_call():
        return False
    if recorder.propagate_to:  # the first may have been sent without: take it for a redirect
        return True
    sent: dict[str, str] = {}
    propagation.inject(sent)
    return all(request.headers.get(name) == value for name, value in sent.items())


class RequestsHook(Hook):
    """Times the one method that every request of a session goes through."""

    requires = ("requests >= 2.20",)
    patches = (Replacement("requests.sessions", "Session.send", timed_calls(_Call)),)
