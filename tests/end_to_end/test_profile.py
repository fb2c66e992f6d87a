"""A profile asked of the command line, taken by a program that serves, kept by the service."""

import gzip
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from latencytrace.agent.guard import raise_fault
from latencytrace.agent.start import start, uninstrument
from latencytrace.settings import agent_settings
from tests.support.models.generating import generating
from tests.support.models.tiny_chat import TinyChat, tiny_chat
from tests.support.servers.command_line import COMMAND, environment
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

ASKED = [*COMMAND, "profile", "--steps", "5", "--seconds", "30"]


@pytest.fixture(scope="module")
def chat() -> TinyChat:
    return tiny_chat()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    with RunningService(tmp_path / "data") as running:
        settings = agent_settings(
            endpoint=running.otlp, service_name="chat", environ={"OTEL_BSP_SCHEDULE_DELAY": "20"}
        )
        start(settings, raise_fault)
        try:
            yield running
        finally:
            uninstrument()


def asked(service: RunningService, *flags: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ASKED, "--url", service.url, *flags],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(),
        check=False,
        timeout=100,
    )


def test_a_profile_goes_from_a_step_to_a_file(
    service: RunningService, chat: TinyChat, tmp_path: Path
) -> None:
    with generating(chat):
        until(lambda: service.metric("latencytrace_requests_total"), service.said)
        done = asked(service, "--service", "chat", "--out", "it.json.gz", folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("5 steps of chat in ")
    assert "aten::" in done.stdout
    assert "https://ui.perfetto.dev" in done.stdout
    trace = json.loads(gzip.decompress((tmp_path / "it.json.gz").read_bytes()))
    assert any(event.get("cat") == "cpu_op" for event in trace["traceEvents"])
    [kept] = cast("list[dict[str, Any]]", service.ask("/profiles")["profiles"])
    request = service.request(kept["trace_ids"][0])
    assert request["profiles"] == [kept["id"]]


@pytest.mark.long
def test_a_program_without_requests_takes_none_and_it_is_said(
    service: RunningService, chat: TinyChat, tmp_path: Path
) -> None:
    with generating(chat):
        until(lambda: service.metric("latencytrace_requests_total"), service.said)

    done = asked(service, "--wait", "1", folder=tmp_path)

    assert done.returncode == 1
    assert "nothing came within 1 s" in done.stderr
    [given_up] = cast("list[dict[str, Any]]", service.ask("/profiles")["profiles"])
    assert (given_up["state"], given_up["phase"]) == ("refused", "cancelled")
    assert service.get(f"/api/v1/profiles/{given_up['id']}/trace").status_code == 404
    other = asked(service, "--service", "other", folder=tmp_path)
    assert "no process of 'other' has posted" in other.stderr
