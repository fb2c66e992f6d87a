"""A program is traced by its environment alone: the agent lies in a folder on PYTHONPATH."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.agent.receiving import Receiver
from tests.support.programs.agent_folder import agent_folder, bare_environment
from tests.support.servers.command_line import environment
from tests.support.waiting import until

WORK = """
import latencytrace

with latencytrace.request("nightly"):
    pass
print(latencytrace.agent_status().running, latencytrace.__file__)
"""
OWN = "import certifi; print(certifi.__file__)"


def run(interpreter: Path, folder: Path, code: str, **more: str) -> str:
    """What a program says, with this folder as its environment names it."""
    autostart = folder / "latencytrace" / "agent" / "autostart"
    path = os.pathsep.join((str(autostart), str(folder)))
    done = subprocess.run(
        [interpreter, "-c", code],
        env=environment(PYTHONPATH=path, **more),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_that_has_nothing_of_ours_is_traced(tmp_path: Path) -> None:
    folder = agent_folder(tmp_path / "agent")
    interpreter, _ = bare_environment(tmp_path / "environment")
    with Receiver() as receiver:
        said = run(interpreter, folder, WORK, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint)

        assert said.split() == ["True", str(folder / "latencytrace" / "__init__.py")]
        [span] = until(lambda: receiver.spans)
    assert span.name == "nightly"


@pytest.mark.parametrize("variable", ["LATENCYTRACE_DISABLED", "OTEL_SDK_DISABLED"])
def test_one_variable_switches_it_off(tmp_path: Path, variable: str) -> None:
    folder = agent_folder(tmp_path / "agent")
    interpreter, _ = bare_environment(tmp_path / "environment")

    assert run(interpreter, folder, WORK, **{variable: "true"}).startswith("False")


def test_the_programs_own_version_of_a_library_wins(tmp_path: Path) -> None:
    folder = agent_folder(tmp_path / "agent")
    interpreter, packages = bare_environment(tmp_path / "environment")
    of_ours = run(interpreter, folder, OWN, LATENCYTRACE_DISABLED="1").strip()
    (packages / "certifi.py").write_text("")
    of_its_own = run(interpreter, folder, OWN, LATENCYTRACE_DISABLED="1").strip()

    assert Path(of_ours).is_relative_to(folder)
    assert Path(of_its_own) == packages / "certifi.py"
