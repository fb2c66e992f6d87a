"""Propagators of every kind that `OTEL_PROPAGATORS` may name: requests are traced as ever."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import propagate
from opentelemetry.baggage import set_baggage
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace import TraceState, set_span_in_context

from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.spans.span import Details, RecordedSpan
from latencytrace.agent.toolkit.http.propagation import extract, goes_to, inject, propagator
from tests.support.agent.receiving import Receiver
from tests.support.few import few

PROGRAM = """
import asyncio, sys
import flask, httpx, starlette.applications, starlette.responses, starlette.routing
import latencytrace
from opentelemetry import trace

latencytrace.instrument("program", endpoint=sys.argv[1])
wsgi = flask.Flask("wsgi")
wsgi.get("/of-wsgi")(lambda: str(trace.get_current_span().is_recording()))

async def endpoint(request):
    return starlette.responses.PlainTextResponse(str(trace.get_current_span().is_recording()))

asgi = starlette.applications.Starlette(
    routes=[starlette.routing.Route("/of-asgi", endpoint)]
)

async def ask():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(asgi)) as client:
        return (await client.get("http://program/of-asgi")).text

assert wsgi.test_client().get("/of-wsgi").text == "True"
assert asyncio.run(ask()) == "True"
assert latencytrace.flush()
assert latencytrace.agent_status().faults == 0
"""


@pytest.fixture
def no_propagator() -> Iterator[None]:
    before = propagate.get_global_textmap()
    propagate.set_global_textmap(CompositePropagator([]))
    yield
    propagate.set_global_textmap(before)


@pytest.mark.usefixtures("no_propagator")
def test_without_a_propagator_a_call_carries_nothing_and_has_a_context() -> None:
    carried: dict[str, str] = {}
    inject(carried)

    assert carried == {}
    assert extract({"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}) == Context()


_ID = st.integers(1, 2**64 - 1)


@given(
    trace_id=st.integers(1, 2**128 - 1),
    span_id=_ID,
    details=st.sampled_from(["none", "random", "not random", "a trace state", "remote"]),
    has_baggage=st.booleans(),
    is_ended=st.booleans(),
)
def test_a_span_of_ours_is_written_as_the_propagators_write_it(
    trace_id: int, span_id: int, details: str, *, has_baggage: bool, is_ended: bool
) -> None:
    provider = RecordingProvider()
    span = provider.get_tracer("test").start_span("call")
    assert isinstance(span, RecordedSpan)
    span.trace_id, span.span_id = trace_id, span_id
    if details != "none":
        span.details = Details()
        span.details.random_id = details == "random"
        span.details.trace_state = TraceState([("ot", "th:8")]) if "state" in details else None
        span.details.remote_parent = details == "remote"
    context = set_span_in_context(span, Context())
    if has_baggage:
        context = set_baggage("tenant", "a b", context)
    if is_ended:
        span.end()
    written: dict[str, str] = {}
    expected: dict[str, str] = {}

    inject(written, context)
    propagator().inject(expected, context)

    assert written == expected
    assert len(written) == 1 + has_baggage + (details == "a trace state")


@pytest.mark.parametrize(
    "named", few(2, ["b3", "none", "xray", "tracecontext", "tracecontext,no-such"])
)
def test_servers_are_traced_whatever_propagators_are_named(receiver: Receiver, named: str) -> None:
    environment = {**os.environ, "OTEL_PROPAGATORS": named}

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, receiver.endpoint],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert {"GET /of-wsgi", "GET /of-asgi"} <= {span.name for span in receiver.spans}


@pytest.mark.parametrize("named", ["none", "b3"])
def test_the_doctor_has_no_traceback_for_a_propagator(named: str) -> None:
    environment = {**os.environ, "OTEL_PROPAGATORS": named}

    done = subprocess.run(
        [sys.executable, "-m", "latencytrace", "doctor"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Traceback" not in done.stdout + done.stderr
    assert ("not installed: headers of W3C" in done.stdout + done.stderr) is (named == "b3")


def test_the_service_runs_whatever_propagators_the_program_names() -> None:
    program = (
        "import latencytrace.cli.commands.serve as command\n"
        "command._forget_the_programs_settings()\n"
        "import latencytrace.service.app\n"
    )

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "OTEL_PROPAGATORS": "b3"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("patterns", "gets", "lacks"),
    [
        (("*.internal",), {"a.internal"}, {"api.openai.com", "internal"}),
        (("!api.openai.com",), {"a.internal", "openai.com"}, {"api.openai.com"}),
        (("10.*", "*.internal", "!b.internal"), {"10.0.0.1", "a.internal"}, {"b.internal", "c"}),
        (("!*",), set(), {"a.internal", "10.0.0.1"}),
        ((), {"a.internal", "api.openai.com"}, set()),
    ],
)
def test_patterns_say_which_hosts_get_headers(
    patterns: tuple[str, ...], gets: set[str], lacks: set[str]
) -> None:
    assert {host for host in gets | lacks if goes_to(host, patterns)} == gets
