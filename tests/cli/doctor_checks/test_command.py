"""Which interpreter would run a command."""

import sys
from pathlib import Path

import pytest

from latencytrace.cli.doctor_checks.command import program


def script(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "shebang",
    [
        f"#!{sys.executable}\n",
        f"#!/usr/bin/env {sys.executable}\n",
        f"#!/usr/bin/env -S {sys.executable} -u\n",
        f"#!/bin/sh\n'''exec' {sys.executable} \"$0\" \"$@\"\n' '''\n",
        f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n",
    ],
    ids=["direct", "env", "env with flags", "long", "long and quoted"],
)
def test_a_script_is_run_by_what_its_first_lines_name(shebang: str, tmp_path: Path) -> None:
    uvicorn = script(tmp_path, "uvicorn", f"{shebang}import sys\n")

    found = program([uvicorn, "-I", "app:app"])

    assert (found.interpreter, found.findings) == (Path(sys.executable), [])


@pytest.mark.parametrize(
    ("flags", "blocking"),
    [
        (["-I"], ["-I"]),
        (["-uE", "-S"], ["-E", "-S"]),
        (["-u", "-m", "uvicorn", "-I"], []),
        (["-c", "print()", "-S"], []),
        (["-Wignore", "-B"], []),
        (["app.py", "-E"], []),
    ],
)
def test_flags_that_keep_run_out_are_told_from_the_programs_own(
    flags: list[str], blocking: list[str]
) -> None:
    found = program([sys.executable, *flags])

    told = [finding.what.split()[4].rstrip(",") for finding in found.findings]
    assert told == blocking


def test_another_tracers_launcher_is_to_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, "opentelemetry-instrument", f"#!{sys.executable}\n")
    monkeypatch.setenv("PATH", str(tmp_path))

    (finding,) = program(["opentelemetry-instrument", "uvicorn", "app:app"]).findings

    assert finding.fix == "latencytrace run -- uvicorn app:app"


def test_a_program_of_another_kind_cannot_be_told(tmp_path: Path) -> None:
    start = script(tmp_path, "start", "#!/bin/sh\nexec uvicorn app:app\n")

    found = program([start])

    assert found.interpreter is None
    assert "is no Python program" in found.findings[0].what


def test_a_launcher_of_environments_shall_start_the_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, "uv", "\x7fELF")
    monkeypatch.setenv("PATH", str(tmp_path))

    (finding,) = program(["uv", "run", "uvicorn", "app:app"]).findings

    assert finding.fix == "let it start the doctor: uv run latencytrace doctor"
