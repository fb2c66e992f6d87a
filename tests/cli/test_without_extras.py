"""What works where only some of our extras are installed, and what the rest says there."""

import importlib.metadata
import json
import subprocess
from pathlib import Path

import pytest
from typer.main import get_group

from latencytrace.cli.app import app
from latencytrace.cli.commands.run import HELP
from latencytrace.cli.processes.without_extra import COMMANDS
from tests.support.agent.receiving import Receiver
from tests.support.few import few
from tests.support.repository.installed_extras import environment_with
from tests.support.servers.command_line import environment
from tests.support.servers.nowhere import NOWHERE
from tests.support.servers.recording_api import RecordingApi, recording_api

__all__ = ["recording_api"]
LISTED = {command: extra for extra, commands in COMMANDS.items() for command in commands}
PROGRAM = """
import importlib.util, json
import latencytrace
with latencytrace.stage("rerank"):
    pass
absent = [name for name in ("httpx", "rich", "typer") if importlib.util.find_spec(name) is None]
print(json.dumps({"absent": absent, "running": latencytrace.agent_status().running}))
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a serving image: no extra."""
    return environment_with(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of somebody who asks a service elsewhere."""
    return environment_with(tmp_path_factory.mktemp("cli"), "cli")


def latencytrace(
    python: Path, *arguments: str | Path, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "latencytrace", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=100,
        env=environment(**env),
    )


def test_run_traces_a_program_without_any_extra(bare: Path) -> None:
    with Receiver() as receiver:
        ended = latencytrace(
            bare, "run", "--service", "rag", "--endpoint", receiver.endpoint, bare, "-c", PROGRAM
        )

    assert json.loads(ended.stdout) == {"absent": ["httpx", "rich", "typer"], "running": True}
    [span] = receiver.spans
    assert (span.name, span.resource["service.name"]) == ("rerank", "rag")


def test_run_says_which_extra_would_start_a_service(bare: Path) -> None:
    ended = latencytrace(bare, "run", "--endpoint", NOWHERE, bare, "-c", "print(1)")

    assert ended.stdout == "1\n"
    assert (
        "none to start: spans are lost. Run: pip install 'latencytrace[service]'" in ended.stderr
    )


@pytest.mark.parametrize("command", LISTED)
def test_another_command_says_in_one_line_which_extra_it_needs(command: str, bare: Path) -> None:
    ended = latencytrace(bare, command, "--help")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"latencytrace: {command} needs more than is installed: ")
    assert ended.stderr.endswith(f" Run: pip install 'latencytrace[{LISTED[command]}]'\n")
    assert ended.stderr.count("\n") == 1


def test_every_command_but_run_is_listed_with_its_extra() -> None:
    assert {"run", "doctor", *LISTED} == set(get_group(app).commands)


def test_help_without_any_extra_is_that_of_run_and_what_the_others_need(bare: Path) -> None:
    ended = latencytrace(bare, "--help")

    assert ended.returncode == 0
    assert ended.stdout.startswith("Usage: latencytrace run ")
    of_service = "serve, rules, autoscaling, import, backup, restore, migrate, adopt"
    assert f"  {of_service}: pip install 'latencytrace[service]'\n" in ended.stdout


def test_the_version_is_known_without_any_extra(bare: Path) -> None:
    ended = latencytrace(bare, "--version")

    assert ended.stdout == f"latencytrace {importlib.metadata.version('latencytrace')}\n"


def test_the_help_of_run_is_the_same_with_and_without_extras(bare: Path, asking: Path) -> None:
    assert latencytrace(bare, "run", "--help").stdout == f"{HELP}\n"
    assert latencytrace(asking, "run", "--help").stdout == f"{HELP}\n"


@pytest.mark.parametrize("command", few(1, ["breakdown", "requests", "objectives", "gpu"]))
def test_a_service_elsewhere_is_asked_with_the_extra_of_the_command_line(
    command: str, asking: Path, recording_api: RecordingApi
) -> None:
    ended = latencytrace(asking, command, "--url", recording_api.url)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout


@pytest.mark.parametrize("command", ["serve", "import"])
def test_a_command_of_the_service_says_so_without_it(
    command: str, asking: Path, tmp_path: Path
) -> None:
    ended = latencytrace(asking, command, *([tmp_path / "file"] if command == "import" else []))

    assert ended.returncode == 1
    assert ended.stderr.endswith("pip install 'latencytrace[service]'\n")
    assert ended.stderr.count("\n") == 1


def test_the_doctor_runs_where_only_the_agent_is_installed(bare: Path) -> None:
    with Receiver() as receiver:
        fine = latencytrace(bare, "doctor", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint)
        off = latencytrace(
            bare, "doctor",
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, OTEL_TRACES_SAMPLER="always_off",
        )  # fmt: skip

    assert (fine.returncode, fine.stderr) == (0, "")
    assert fine.stdout.endswith("\nNo problems found.\n")
    assert off.returncode == 1
    assert "✗ nothing is recorded: OTEL_TRACES_SAMPLER=always_off" in off.stdout


def test_the_doctor_judges_an_interpreter_with_the_agent_alone(bare: Path, asking: Path) -> None:
    with Receiver() as receiver:
        ended = latencytrace(
            asking, "doctor", "--json", "--", bare, "app.py",
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
        )  # fmt: skip

    document = json.loads(ended.stdout)
    assert document["wrong"] == 0
    assert "service" in {one["about"] for one in document["findings"]}
