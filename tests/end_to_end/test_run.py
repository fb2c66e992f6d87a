"""`latencytrace run` where no service is there: it brings one, and its data stay."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from latencytrace.cli.processes.local_service import answers
from tests.support.few import few
from tests.support.servers.command_line import COMMAND, environment, latencytrace
from tests.support.servers.ports import free_port

PROGRAM = """
import sys
import latencytrace
with latencytrace.stage("rerank"):
    sum(range(100_000))
sys.exit(5)
"""


def addresses() -> dict[str, str]:
    return {
        "LATENCYTRACE_URL": f"http://127.0.0.1:{free_port()}",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}",
    }


def test_what_it_collected_can_be_read_after_the_program_has_ended(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    ran = latencytrace(
        *("run", "--service", "tiny", "--data", folder, "--", sys.executable, "-c", PROGRAM),
        env=environment(**addresses()),
    )

    assert ran.returncode == 5
    assert f"latencytrace breakdown --data {folder}" in ran.stderr
    read = json.loads(latencytrace("requests", "--data", folder, "--json").stdout)
    assert [request["service"] for request in read["requests"]] == ["tiny"]
    assert "rerank" in read["requests"][0]["ledger"]


def test_where_no_service_can_start_the_program_runs_and_its_output_is_shown_in_lines(
    tmp_path: Path,
) -> None:
    no_folder = tmp_path / "data"
    no_folder.write_text("")

    ran = latencytrace(
        *("run", "--data", no_folder, "--", sys.executable, "-c", PROGRAM),
        env=environment(**addresses()),
    )

    assert ran.returncode == 5
    why, *output = ran.stderr.splitlines()
    assert "spans are lost until one listens: latencytrace serve: ended before" in why
    assert any(str(no_folder) in line for line in output)


def test_a_signal_ends_the_program_and_then_the_service(tmp_path: Path) -> None:
    where = addresses()
    wait = "import signal; print('ready', flush=True); signal.pause()"
    with subprocess.Popen(
        [*COMMAND, "run", "--data", tmp_path / "data", "--", sys.executable, "-c", wait],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(**where),
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=100)

    assert code == 128 + signal.SIGTERM
    assert not answers(f"{where['LATENCYTRACE_URL']}/healthz")


@pytest.mark.long
@pytest.mark.parametrize("command", few(1, ["breakdown", "requests"]))
def test_a_folder_that_a_service_has_open_is_left_to_it(command: str, tmp_path: Path) -> None:
    where = addresses()
    read = [*COMMAND, command, "--data", str(tmp_path / "data")]

    ran = latencytrace("run", "--data", tmp_path / "data", "--", *read, env=environment(**where))

    assert ran.returncode == 1
    assert "belongs to process" in ran.stderr
