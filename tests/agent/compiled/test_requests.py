"""Requests that the core serves are those of the forms in Python."""

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from latencytrace.agent.compiled.core import core
from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.hooks import asgi
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans
from tests.support.programs import asgi_scopes


def told(compiled: str) -> Any:
    command = [sys.executable, "-m", "tests.support.programs.asgi_scopes"]
    environment = {**os.environ, "LATENCYTRACE_COMPILED": compiled}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_requests_of_every_kind_are_the_same_spans_as_in_python() -> None:
    in_c, in_python = told(""), told("0")

    assert len(in_c["spans"]) > 500
    assert in_c["errors"] == in_python["errors"]
    for ours, theirs in zip(in_c["spans"], in_python["spans"], strict=True):
        assert ours == theirs


@pytest.mark.parametrize("after", ["nothing", "classes that were refused"])
def test_the_usual_requests_are_begun_by_the_core(
    monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    if after != "nothing":
        with pytest.raises(AttributeError, match="under_way"):
            core.bind_recorder(Recorder, Timing, object)
    left: list[Any] = []
    begun: Any = asgi._begun

    def in_python(recorder: Any, application: Any, scope: Any, layers: Any) -> Any:
        left.append(scope)
        return begun.__wrapped__(recorder, application, scope, layers)

    monkeypatch.setattr(asgi, "_begun", core.begin_request(in_python))

    asyncio.run(asgi_scopes.serve_all(Spans()))

    total = len(list(asgi_scopes.requests()))
    of_http = [scope for scope in left if scope["type"] == "http"]
    assert 0 < len(of_http) < total  # of two each: all of those that say more, and the first


def test_requests_are_encoded_as_in_python() -> None:
    spans = Spans()
    asyncio.run(asgi_scopes.serve_all(spans))
    in_c, in_python = OtlpEncoder({}), OtlpEncoder({})
    form: Any = OtlpEncoder.parts

    for span in spans.all:
        ours = in_c.parts([span])  # first, for it takes nothing out of the span
        assert ours == form.__wrapped__(in_python, [span])

    streamed = [span for span in spans.all if semconv.STREAMED_EVENTS in span.attributes]
    assert len(streamed) > 20
