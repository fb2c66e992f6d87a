"""Starting and stopping the agent: once, off when told so, and without a trace afterwards."""

import importlib.metadata
import json
import logging
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import starlette.applications
import transformers.generation.utils

import latencytrace
from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.device.timer import DeviceTimer
from latencytrace.agent.export.exporter import Exporter
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.reporting.own_budget import OwnBudget
from latencytrace.agent.start import Agent, start
from latencytrace.agent.timing.patching import HookState
from latencytrace.model import Stage, semconv
from latencytrace.plugins import installed_version
from latencytrace.settings import AgentSettings
from tests.support.agent.receiving import Receiver, TracedProgram
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.cuda import FakeCuda
from tests.support.servers.command_line import python
from tests.support.servers.nowhere import NOWHERE
from tests.support.waiting import PATIENCE_S

HEAVY = {
    "torch", "fastapi", "numpy", "chdb", "transformers", "starlette", "uvicorn", "httpx",
    "ctypes", "http.client", "http.server", "latencytrace.model.request", "multiprocessing.pool",
    "opentelemetry.sdk.resources", "opentelemetry.sdk.trace", "asyncio", "importlib.metadata",
    "wrapt", "latencytrace.agent.hooks.asgi", "latencytrace.agent.hooks.transformers",
    "latencytrace.agent.gpu.watch", "latencytrace.agent.profiling.orders",
    "latencytrace.agent.reporting.own_cost", "latencytrace.agent.reporting.self_report",
}  # fmt: skip


def patched_objects() -> dict[str, object]:
    """What hooks put something else in the place of."""
    return {
        "thread": vars(threading.Thread)["start"],
        "httpx": vars(httpx.Client)["_send_single_request"],
        "starlette": vars(starlette.applications.Starlette)["__call__"],
        "transformers": vars(transformers.generation.utils.GenerationMixin)["generate"],
    }


def program(
    code: str, *arguments: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    return python("-c", code, *arguments, env={"PATH": "/usr/bin:/bin", **(environ or {})})


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "latencytrace")
    return caplog


def test_uninstrument_leaves_the_very_same_objects(settings: AgentSettings) -> None:
    before = patched_objects()

    start(settings, raise_fault)
    during = patched_objects()
    latencytrace.uninstrument()

    assert {name for name, was in before.items() if during[name] is was} == set()
    assert {name for name, was in before.items() if patched_objects()[name] is not was} == set()


def test_uninstrument_sends_what_waits_and_ends_every_thread(
    settings: AgentSettings, receiver: Receiver
) -> None:
    threads = set(threading.enumerate())
    start(settings, raise_fault)
    with latencytrace.stage("rerank"):
        pass

    latencytrace.uninstrument()

    names = {thread.name for thread in set(threading.enumerate()) - threads}
    assert [span.name for span in receiver.spans] == ["rerank"]
    assert "latencytrace-export" not in names


def test_a_second_instrument_changes_nothing(
    agent: TracedProgram, settings: AgentSettings, logged: pytest.LogCaptureFixture
) -> None:
    during = patched_objects()

    start(settings, raise_fault)

    assert {name for name, was in during.items() if patched_objects()[name] is not was} == set()
    assert agent.status.endpoint == settings.traces_url
    assert logged.text == ""


def test_a_second_instrument_with_other_settings_says_that_they_are_not_used(
    agent: TracedProgram, logged: pytest.LogCaptureFixture
) -> None:
    latencytrace.instrument("another name", endpoint="http://127.0.0.1:1")

    assert "runs already" in logged.text
    assert agent.status.endpoint == f"{agent.receiver.endpoint}/v1/traces"


def test_the_agent_can_be_started_again(settings: AgentSettings, receiver: Receiver) -> None:
    for _ in range(2):
        start(settings, raise_fault)
        with latencytrace.stage("rerank"):
            pass
        latencytrace.uninstrument()

    assert [span.name for span in receiver.spans] == ["rerank", "rerank"]


def test_uninstrument_without_an_agent_is_nothing() -> None:
    latencytrace.uninstrument()

    assert not latencytrace.agent_status().running


def test_flush_without_an_agent_has_nothing_to_send() -> None:
    assert latencytrace.flush()


@pytest.mark.parametrize(
    "endpoint",
    ["127.0.0.1:4318", "ftp://127.0.0.1", "http://127.0.0.1:port", "http://[::1", "http://"],
)
def test_an_endpoint_that_is_none_is_said_and_the_agent_stays_off(
    endpoint: str, logged: pytest.LogCaptureFixture
) -> None:
    before = patched_objects()

    latencytrace.instrument(endpoint=endpoint)

    assert not latencytrace.agent_status().running
    assert "stays off" in logged.text
    assert endpoint in logged.text
    assert patched_objects() == before
    assert "latencytrace-export" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LATENCYTRACE_DISABLED", "1"),
        ("LATENCYTRACE_DISABLED", "true"),
        ("OTEL_SDK_DISABLED", "true"),
    ],
)
def test_the_off_switch_leaves_not_one_patch(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    before = patched_objects()

    latencytrace.instrument()

    assert {name for name, was in before.items() if patched_objects()[name] is not was} == set()
    assert not latencytrace.agent_status().running
    with latencytrace.stage("rerank"):
        pass


def test_status_counts_spans_and_names_hooks(agent: TracedProgram) -> None:
    with latencytrace.stage("rerank"):
        pass
    agent.spans(at_least=1)

    status = agent.status
    states = {hook.name: hook.state for hook in status.hooks}
    assert (status.running, status.provider, status.faults) == (True, "ours", 0)
    assert (status.spans_made, status.spans_sent, status.spans_dropped) == (1, 1, 0)
    assert (status.spans_queued, status.last_error) == (0, None)
    assert status.export_cpu_ns > 0
    assert states["httpx"] is HookState.APPLIED
    assert states["threads"] is HookState.APPLIED
    assert HookState.REFUSED not in states.values()


def test_a_stopped_agent_says_so() -> None:
    status = latencytrace.agent_status()

    assert (status.running, status.provider, status.hooks) == (False, None, ())


def test_only_the_hooks_that_are_named_are_applied(
    receiver: Receiver, logged: pytest.LogCaptureFixture
) -> None:
    before = patched_objects()
    latencytrace.instrument(endpoint=receiver.endpoint, hooks=["threads", "no_such_hook"])
    try:
        hooks = [hook.name for hook in latencytrace.agent_status().hooks]
        changed = {name for name, was in before.items() if patched_objects()[name] is not was}
    finally:
        latencytrace.uninstrument()

    assert hooks == ["threads"]
    assert changed == {"thread"}
    assert "no hook is called 'no_such_hook'" in logged.text
    assert "transformers" in logged.text


def test_the_service_is_named_as_told(agent: TracedProgram) -> None:
    with latencytrace.stage("rerank"):
        pass

    resource = agent.one("rerank").resource
    assert resource["service.name"] == "program"
    assert resource["telemetry.distro.name"] == "latencytrace"
    assert resource["telemetry.sdk.language"] == "python"
    assert resource["service.instance.id"]


NAMED = """
import sys, latencytrace
latencytrace.instrument(*sys.argv[2:], endpoint=sys.argv[1])
with latencytrace.stage("rerank"):
    pass
"""


@pytest.mark.parametrize(
    ("arguments", "environ", "name"),
    [
        (["told"], {"OTEL_SERVICE_NAME": "environment"}, "told"),
        ([], {"OTEL_SERVICE_NAME": "environment"}, "environment"),
        ([], {"OTEL_RESOURCE_ATTRIBUTES": "service.name=resource,team=a"}, "resource"),
        ([], {}, "python"),
    ],
    ids=["the argument", "its variable", "the resource's variable", "the program"],
)
def test_a_program_that_ends_at_once_sends_its_spans_under_its_name(
    receiver: Receiver, arguments: list[str], environ: dict[str, str], name: str
) -> None:
    done = program(NAMED, receiver.endpoint, *arguments, environ=environ)

    assert (done.returncode, done.stderr) == (0, "")
    (span,) = receiver.spans
    assert span.resource["service.name"] == name


LIGHT = f"""
import json, sys
before = set(sys.modules)
import latencytrace
latencytrace.instrument(endpoint=sys.argv[1])
print(json.dumps(sorted({HEAVY!r} & set(sys.modules) - before)))
"""


def test_starting_loads_nothing_heavy(receiver: Receiver) -> None:
    environ = {"OTEL_BSP_SCHEDULE_DELAY": "3600000"}  # nor is there time for anything later

    done = program(LIGHT, receiver.endpoint, environ=environ)

    assert (done.stderr, json.loads(done.stdout)) == ("", [])


ENDING = """
import atexit, sys
heavy = {"email", "http.client", "ssl", "datetime", "latencytrace.agent.profiling.orders"}
before = set(sys.modules)
atexit.register(lambda: print(*sorted(heavy & set(sys.modules) - before)))  # called last
import latencytrace
latencytrace.instrument(endpoint=sys.argv[1])
with latencytrace.stage("last"):
    pass
"""


def test_the_post_at_the_end_of_a_short_program_loads_next_to_nothing(receiver: Receiver) -> None:
    environ = {"OTEL_BSP_SCHEDULE_DELAY": "3600000"}  # it is the first

    done = program(ENDING, receiver.endpoint, environ=environ)

    assert (done.stderr, done.stdout) == ("", "\n")
    assert [span.name for span in receiver.spans] == ["last"]


LATER = """
import sys, latencytrace
latencytrace.instrument(endpoint=sys.argv[1])
waiting = {hook.name: hook.state for hook in latencytrace.agent_status().hooks}
import httpx
applied = {hook.name: hook.state for hook in latencytrace.agent_status().hooks}
print(waiting["httpx"], applied["httpx"])
latencytrace.uninstrument()
import starlette.applications
print(starlette.applications.Starlette.__call__.__module__)
"""


def test_a_library_imported_later_is_hooked_then_and_not_after_the_end(receiver: Receiver) -> None:
    done = program(LATER, receiver.endpoint)

    assert done.stdout.split() == ["waiting", "applied", "starlette.applications"]
    assert done.stderr == ""


ABSENT = """
import sys
import latencytrace
latencytrace.instrument(endpoint=sys.argv[1])
with latencytrace.stage("rerank"):
    print("served")
"""


def test_a_program_whose_receiver_is_absent_runs_on_and_ends_at_once() -> None:
    done = program(ABSENT, NOWHERE)

    assert (done.returncode, done.stdout) == (0, "served\n")
    assert done.stderr.count("\n") <= 2  # nobody answers, and what is lost
    assert f"no receiver answers at {NOWHERE}/v1/traces" in done.stderr


BROKEN_PLUGIN = """
import sys, latencytrace
latencytrace.instrument(endpoint=sys.argv[1], hooks=["broken", "threads"])
print([hook.name for hook in latencytrace.agent_status().hooks])
"""


def test_a_hook_that_cannot_be_loaded_is_said_and_the_others_work(
    receiver: Receiver, tmp_path: Path
) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[latencytrace.hook]\nbroken = broken_hook:Hook\n")
    (tmp_path / "broken_hook.py").write_text("raise RuntimeError('of its own')\n")

    done = program(BROKEN_PLUGIN, receiver.endpoint, environ={"PYTHONPATH": str(tmp_path)})

    assert done.stdout == "['threads']\n"
    assert "broken" in done.stderr
    assert "of its own" in done.stderr


def test_a_version_is_read_off_the_folder_as_from_its_metadata() -> None:
    installed = {found.metadata["Name"] for found in importlib.metadata.distributions()}

    assert {name: installed_version(name) for name in installed} == {
        name: importlib.metadata.version(name) for name in installed
    }


def test_a_span_whose_device_still_works_is_sent_at_the_end(
    receiver: Receiver, settings: AgentSettings
) -> None:
    agent = Agent(settings, raise_fault)
    agent.begin()
    cuda = FakeCuda(FakeClock(monotonic_ns()))
    timing = agent.recorder.start("forward", Stage.FORWARD)
    passes = DeviceTimer(cuda, cuda.clock).passes()
    passes.begin()
    cuda.work(60_000)
    passes.end()

    agent.recorder.devices.pending.end(timing, monotonic_ns(), passes)
    agent.stop(PATIENCE_S)

    (span,) = receiver.spans
    assert span.attributes[semconv.DEVICE_UNMEASURED] == 1


@pytest.mark.parametrize("may_sample", [True, False])
def test_only_a_budget_that_was_set_may_leave_requests_out(
    settings: AgentSettings, monkeypatch: pytest.MonkeyPatch, *, may_sample: bool
) -> None:
    seen: set[bool] = set()
    rounds = threading.Event()

    def update(_: OwnBudget, *__: object, may_sample: bool) -> None:
        seen.add(may_sample)
        rounds.set()

    monkeypatch.setattr(OwnBudget, "update", update)
    start(settings._replace(may_sample=may_sample), raise_fault)
    try:
        assert rounds.wait(PATIENCE_S)
    finally:
        latencytrace.uninstrument()

    assert seen == {may_sample}


def test_a_round_that_ends_before_the_agent_is_made_reports_nothing(
    settings: AgentSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[object] = []

    class Early(Exporter):
        """Its thread has made a round before its maker goes on, as on a busy machine."""

        def __init__(self, *args: Any, after_round: Callable[[], None], **more: Any) -> None:
            super().__init__(*args, after_round=after_round, **more)
            after_round()
            rounds.append(after_round)

    monkeypatch.setattr("latencytrace.agent.start.Exporter", Early)

    Agent(settings, raise_fault).stop(PATIENCE_S)

    assert len(rounds) == 1
