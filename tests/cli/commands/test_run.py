"""`latencytrace run` and a real, tiny program."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers.command_line import COMMAND, environment, latencytrace, listening
from tests.support.servers.nowhere import NOWHERE

REPORT = """
import json, os, sys
import latencytrace
print(json.dumps({
    "arguments": sys.argv[1:],
    "traced": latencytrace.agent_status().running,
    "endpoint": latencytrace.agent_status().endpoint,
    "service": os.environ.get("OTEL_SERVICE_NAME"),
    "path": [entry for entry in sys.path if "autostart" in entry],
}))
"""


@pytest.fixture
def endpoint() -> Iterator[str]:
    with listening() as address:
        yield address


def program(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


def test_the_program_is_traced_and_gets_its_own_arguments(tmp_path: Path, endpoint: str) -> None:
    script = program(tmp_path, REPORT)

    ended = latencytrace(
        *("run", "--service", "rag", "--endpoint", endpoint, "--"),
        *(sys.executable, script, "--service", "mine", "--", "-x"),
    )

    assert json.loads(ended.stdout) == {
        "arguments": ["--service", "mine", "--", "-x"],
        "traced": True,
        "endpoint": f"{endpoint}/v1/traces",
        "service": "rag",
        "path": [],
    }


def test_the_dashes_before_the_command_can_be_left_out(endpoint: str) -> None:
    ended = latencytrace("run", "--endpoint", endpoint, sys.executable, "-c", "print('ran')")

    assert ended.stdout == "ran\n"


def test_child_processes_are_traced_too(tmp_path: Path, endpoint: str) -> None:
    child = program(tmp_path, REPORT)
    start_child = "import subprocess, sys; subprocess.run([sys.executable, sys.argv[1]])"

    ended = latencytrace(
        "run", "--endpoint", endpoint, "--", sys.executable, "-c", start_child, child
    )

    assert json.loads(ended.stdout)["traced"] is True


def test_the_exit_code_is_the_programs(endpoint: str) -> None:
    ended = latencytrace(
        "run", "--endpoint", endpoint, "--", sys.executable, "-c", "raise SystemExit(7)"
    )

    assert ended.returncode == 7


def test_the_program_replaces_us_where_a_receiver_is_there_already(endpoint: str) -> None:
    show = "import os; print(os.getpid(), flush=True)"

    with subprocess.Popen(
        [*COMMAND, "run", "--endpoint", endpoint, "--", sys.executable, "-c", show],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    ) as process:
        output, _ = process.communicate(timeout=100)

    assert int(output) == process.pid


def test_a_sitecustomize_that_we_shadow_runs_in_our_place(tmp_path: Path, endpoint: str) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['SHADOWED'] = __name__\n")
    look = "import os, sitecustomize; print(os.environ['SHADOWED'], sitecustomize.__file__)"

    ended = latencytrace(
        *("run", "--endpoint", endpoint, "--", sys.executable, "-c", look),
        env=environment(PYTHONPATH=str(tmp_path)),
    )

    assert ended.stdout == f"sitecustomize {tmp_path / 'sitecustomize.py'}\n"


def test_switched_off_means_the_program_alone(tmp_path: Path) -> None:
    script = program(tmp_path, REPORT)

    ended = latencytrace(
        "run", "--", sys.executable, script, env=environment(LATENCYTRACE_DISABLED="1")
    )

    assert json.loads(ended.stdout)["traced"] is False
    assert ended.stderr.splitlines() == [
        "latencytrace: tracing is switched off in the environment: running without it"
    ]


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="needs a second interpreter")
def test_an_interpreter_without_latencytrace_runs_the_program_with_one_line(
    endpoint: str,
) -> None:
    bare = Path(sys.executable).resolve()

    ended = latencytrace("run", "--endpoint", endpoint, "--", bare, "-c", "print('went on')")

    assert ended.stdout == "went on\n"
    assert f"not installed for {bare}: not traced. Run: pip install" in ended.stderr


def test_a_broken_agent_is_one_line_and_the_program_goes_on(tmp_path: Path, endpoint: str) -> None:
    package = tmp_path / "opentelemetry"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('no such luck')\n")

    ended = latencytrace(
        *("run", "--endpoint", endpoint, "--", sys.executable, "-c", "print('went on')"),
        env=environment(PYTHONPATH=str(tmp_path)),
    )

    assert ended.stdout == "went on\n"
    assert ended.stderr.splitlines()[-1] == (
        f"latencytrace: cannot start in {sys.executable}, which goes on untraced: "
        "RuntimeError('no such luck')"
    )


def test_without_any_receiver_far_away_the_program_runs_and_says_so() -> None:
    ended = latencytrace(
        *("run", "--endpoint", NOWHERE.replace("127.0.0.1", "192.0.2.1"), "--"),
        *(sys.executable, "-c", "import os; os._exit(3)"),
    )

    assert ended.returncode == 3
    assert "spans are lost until something does" in ended.stderr


def test_a_command_that_does_not_exist_is_exit_code_127() -> None:
    ended = latencytrace("run", "--", "no-such-command")

    assert ended.returncode == 127
    assert ended.stderr == "latencytrace: command not found: no-such-command\n"


def test_a_command_of_an_environment_that_is_not_active_is_named(tmp_path: Path) -> None:
    installed = Path(sys.executable).with_name("latencytrace")
    ended = latencytrace("run", "--", "latencytrace", env=environment(PATH=str(tmp_path)))

    assert ended.returncode == 127
    assert f"not found: latencytrace; it is {installed}: activate" in ended.stderr


def test_a_script_that_cannot_be_executed_is_exit_code_126(tmp_path: Path) -> None:
    script = program(tmp_path, REPORT)

    ended = latencytrace("run", "--", script)

    assert ended.returncode == 126
    assert f"latencytrace run -- python {script}" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_signals_reach_a_program_that_runs_beside_a_service(
    number: signal.Signals, tmp_path: Path
) -> None:
    wait = program(
        tmp_path,
        f"import signal, sys\nsignal.signal({int(number)}, lambda n, _: sys.exit(40 + n))\n"
        "print('ready', flush=True)\nwhile True: signal.pause()\n",
    )
    beside = (
        "import os, sys\nfrom latencytrace.cli.processes.foreground import run_in_foreground\n"
        "sys.exit(run_in_foreground(sys.argv[1:], os.environ))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", beside, sys.executable, wait],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        process.send_signal(number)
        code = process.wait(timeout=100)

    assert code == 40 + number


def test_a_program_killed_by_a_signal_ends_as_shells_say(tmp_path: Path) -> None:
    script = program(tmp_path, "import os; os.kill(os.getpid(), 9)")
    beside = (
        "import os, sys\nfrom latencytrace.cli.processes.foreground import run_in_foreground\n"
        "sys.exit(run_in_foreground(sys.argv[1:], os.environ))"
    )

    ended = subprocess.run(
        [sys.executable, "-c", beside, sys.executable, script], check=False, env=environment()
    )

    assert ended.returncode == 128 + 9
