"""Our agent, sending over gRPC to our service."""

import sys
from pathlib import Path

import pytest

from tests.support.servers.command_line import environment, latencytrace, python
from tests.support.servers.ports import free_port
from tests.support.servers.running_service import RunningService

GRPC = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}

# In a program that has used it already, it still works after a fork.
FORKING = """
import os
import latencytrace
from opentelemetry import trace

def request(name):
    with trace.get_tracer("test").start_as_current_span(name) as span:
        print(f"{span.get_span_context().trace_id:032x}", flush=True)
    assert latencytrace.flush(60), latencytrace.agent_status()

request("parent")
child = os.fork()
if child == 0:
    request("child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
request("parent again")
"""

OWN_PROVIDER = """
import latencytrace
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
with trace.get_tracer("test").start_as_current_span("own") as span:
    print(f"{span.get_span_context().trace_id:032x}", flush=True)
assert latencytrace.flush(60)
assert latencytrace.flush(60)  # the agent's report on itself follows the first one's spans
trace.get_tracer_provider().shutdown()
"""

WITHOUT_THE_EXTRA = """
import sys
sys.modules["h2"] = None
import latencytrace
latencytrace.instrument()
print(latencytrace.agent_status().running)
"""


def test_spans_of_the_program_s_own_provider_arrive_and_the_agents_report(tmp_path: Path) -> None:
    with RunningService(tmp_path / "data") as service:
        env = environment(
            **GRPC,
            OTEL_EXPORTER_OTLP_ENDPOINT=service.otlp_grpc,
            OTEL_EXPORTER_OTLP_INSECURE="true",
            LATENCYTRACE_URL=service.url,
        )
        ended = latencytrace("run", "--", sys.executable, "-c", OWN_PROVIDER, env=env)
        assert ended.returncode == 0, ended.stderr
        found = service.request(ended.stdout.strip())
        reported = service.get("/metrics").text

    assert "\nlatencytrace_agent_" in reported
    assert found["status"] == "ok"
    assert ended.stderr == ""


@pytest.mark.long
def test_run_starts_a_service_that_takes_what_a_program_and_its_forks_speak(
    tmp_path: Path,
) -> None:
    env = environment(
        **GRPC,
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}",
        LATENCYTRACE_URL=f"http://127.0.0.1:{free_port()}",
    )
    ended = latencytrace(
        *("run", "--data", tmp_path / "data", "--"),
        *(sys.executable, "-c", FORKING),
        env=env,
    )
    read = latencytrace("requests", "--data", tmp_path / "data", env=environment())

    assert ended.returncode == 0, ended.stderr
    assert "3 requests" in read.stdout


def test_without_the_extra_the_agent_stays_off_and_says_what_to_install() -> None:
    ended = python("-c", WITHOUT_THE_EXTRA, env=environment(**GRPC))

    assert ended.stdout == "False\n"
    assert "latencytrace stays off" in ended.stderr
    assert "pip install 'latencytrace[grpc]'" in ended.stderr
