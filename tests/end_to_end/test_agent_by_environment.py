"""A program is traced by its environment alone: the agent lies in a folder on PYTHONPATH."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.agent.receiving import Receiver
from tests.support.programs.agent_folder import agent_folder, bare_environment
from tests.support.servers.command_line import environment
from tests.support.servers.nowhere import NOWHERE
from tests.support.waiting import until

WORK = """
import latencytrace

with latencytrace.request("nightly"):
    pass
latencytrace.flush(60)
print(latencytrace.agent_status().running, latencytrace.__file__)
"""
OWN = "import certifi; print(certifi.__file__)"


def run(interpreter: Path, folder: Path, code: str, *, ends: str = "", **more: str) -> str:
    """What a program says, with this folder as its environment names it."""
    autostart = folder / "latencytrace" / "agent" / "autostart"
    path = os.pathsep.join((f"{autostart}{ends}", f"{folder}{ends}"))
    return said([interpreter, "-c", code], PYTHONPATH=path, **more)


def said(command: Sequence[str | Path], **variables: str) -> str:
    """The output of a command that ends well."""
    done = subprocess.run(
        command,
        env=environment(**variables),
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
        output = run(interpreter, folder, WORK, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint)

        assert output.split() == ["True", str(folder / "latencytrace" / "__init__.py")]
        [span] = until(lambda: receiver.spans)
    assert span.name == "nightly"


@pytest.mark.parametrize("variable", ["LATENCYTRACE_DISABLED", "OTEL_SDK_DISABLED"])
def test_one_variable_switches_it_off(tmp_path: Path, variable: str) -> None:
    folder = agent_folder(tmp_path / "agent")
    interpreter, _ = bare_environment(tmp_path / "environment")

    assert run(interpreter, folder, WORK, **{variable: "true"}).startswith("False")


@pytest.mark.parametrize("ends", ["", os.sep])
def test_the_programs_own_version_of_a_library_wins(tmp_path: Path, ends: str) -> None:
    folder = agent_folder(tmp_path / "agent")
    interpreter, packages = bare_environment(tmp_path / "environment")
    of_ours = run(interpreter, folder, OWN, LATENCYTRACE_DISABLED="1").strip()
    (packages / "certifi.py").write_text("")
    of_its_own = run(interpreter, folder, OWN, ends=ends, LATENCYTRACE_DISABLED="1").strip()

    assert Path(of_ours).is_relative_to(folder)
    assert Path(of_its_own) == packages / "certifi.py"


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_a_folder_of_the_programs_own_keeps_its_place_under_run(
    tmp_path: Path, disabled: str
) -> None:
    folder = agent_folder(tmp_path / "libraries")
    interpreter, packages = bare_environment(tmp_path / "environment")
    (packages / "certifi.py").write_text("")
    child = f"import subprocess; subprocess.run({[str(interpreter), '-c', OWN]}, check=True)"
    if disabled == "1":
        child = f"import os; os.environ['LATENCYTRACE_DISABLED'] = '1'; {child}"

    path = said(
        [interpreter, "-P", "-m", "latencytrace", "run", "--", interpreter, "-c", child],
        PYTHONPATH=str(folder),
        OTEL_EXPORTER_OTLP_ENDPOINT=NOWHERE,
    ).strip()

    assert Path(path).is_relative_to(folder)
