"""`latencytrace run` and the processes that a program starts: each span arrives exactly once."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from latencytrace.model import Stage
from tests.support.agent.receiving import ReceivedSpan, Receiver
from tests.support.servers.command_line import environment, latencytrace, python

MULTIPROCESSING = """
import multiprocessing, sys
import latencytrace

def work(name):
    with latencytrace.stage(name):
        pass

if __name__ == "__main__":
    with latencytrace.stage("before"):
        pass
    child = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=("child",))
    with latencytrace.stage("around"):
        child.start()
    child.join()
    sys.exit(child.exitcode)
"""
POOL = """
import sys
from concurrent.futures import ProcessPoolExecutor
import latencytrace

def work(number):
    with latencytrace.stage("task"):
        return number

if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        assert sum(pool.map(work, range(10))) == 45
"""
SPAWNED = """
import importlib, multiprocessing, sys

def look(imported):
    if imported:
        module = importlib.import_module(imported)
        assert sys.modules[imported] is module
        assert module.__spec__.name == imported
    started = sys.modules.get("latencytrace.agent.start")
    if started is not None:  # no part of the agent was run twice
        assert started.call_in is sys.modules["latencytrace.agent.context"].call_in
    print(started is not None)
    if not imported:  # it pays for no module of ours
        assert "latencytrace" not in sys.modules
    if imported == "opentelemetry.trace":
        import opentelemetry
        assert opentelemetry.trace is module
        with module.get_tracer("shop").start_as_current_span("child"):
            pass
    if imported == "httpx":
        import latencytrace
        states = {hook.name: str(hook.state) for hook in latencytrace.agent_status().hooks}
        print(states["httpx"], states["threads"])

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=look, args=sys.argv[1:])
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""
CARRIED = """
import multiprocessing, sys
import latencytrace

def work():
    pass

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work)
    with latencytrace.stage("around"):
        child.start()
    child.join()
    sys.exit(child.exitcode)
"""
INSTRUMENTED_LATE = """
import multiprocessing, os, sys

def work(endpoint):
    import latencytrace
    latencytrace.instrument("shop", endpoint=endpoint)
    with latencytrace.stage("child"):
        pass

if __name__ == "__main__":
    child = multiprocessing.get_context(sys.argv[2]).Process(target=work, args=(sys.argv[1],))
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""
SUBPROCESS = """
import subprocess, sys
import latencytrace

if len(sys.argv) > 1:
    with latencytrace.stage("child"):
        sys.exit(0)
with latencytrace.stage("parent"):
    sys.exit(subprocess.run([sys.executable, __file__, "again"]).returncode)
"""


def ran(
    receiver: Receiver, folder: Path, program: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    (folder / "shop.py").write_text(program)
    return latencytrace(
        *("run", "--", *arguments),
        env=environment(
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
            PYTHONPATH=str(folder),
            # So long that only what a process sends at its end arrives.
            OTEL_BSP_SCHEDULE_DELAY="60000",
        ),
    )


def counted(receiver: Receiver) -> Counter[str]:
    """The names of spans; but not of imports, of which versions of Python need others."""
    return Counter(span.name for span in receiver.spans if span.stage != Stage.LOAD)


def processes(spans: list[ReceivedSpan]) -> set[object]:
    return {span.resource["process.pid"] for span in spans}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_of_multiprocessing_sends_its_own_spans_at_its_end(
    receiver: Receiver, tmp_path: Path, method: str
) -> None:
    done = ran(receiver, tmp_path, MULTIPROCESSING, sys.executable, "-m", "shop", method)

    assert done.returncode == 0, done.stderr
    assert counted(receiver) == {"before": 1, "around": 1, "child": 1}
    assert len(processes(receiver.spans)) == 2
    assert {span.resource["service.name"] for span in receiver.spans} == {"shop"}


@pytest.mark.parametrize(
    ("imported", "output"),
    [
        pytest.param("", "False", id="nothing"),
        pytest.param("email", "False", id="the standard library"),
        pytest.param("iniconfig", "False", id="a library without a hook"),
        pytest.param("latencytrace", "False", id="latencytrace, not used"),
        pytest.param("latencytrace.agent.context", "True", id="a part of the agent"),
        pytest.param("sqlite3", "True", id="a part of the standard library that is timed"),
        pytest.param("httpx", "True\napplied applied", id="a library with a hook"),
    ],
)
def test_in_a_spawned_process_the_agent_starts_with_the_first_import_of_what_it_times(
    receiver: Receiver, tmp_path: Path, imported: str, output: str
) -> None:
    script = str(tmp_path / "shop.py")
    done = ran(receiver, tmp_path, SPAWNED, sys.executable, script, imported)

    assert (done.returncode, done.stdout.strip()) == (0, output), done.stderr


def test_a_spawned_process_that_imports_opentelemetry_sends_its_spans(
    receiver: Receiver, tmp_path: Path
) -> None:
    name = "opentelemetry.trace"
    done = ran(receiver, tmp_path, SPAWNED, sys.executable, "-m", "shop", name)

    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert counted(receiver) == {"child": 1}


def test_a_spawned_process_in_a_request_starts_the_agent_only_to_carry_its_span(
    receiver: Receiver, tmp_path: Path
) -> None:
    done = ran(receiver, tmp_path, CARRIED, sys.executable, "-m", "shop")

    assert done.returncode == 0, done.stderr
    assert counted(receiver) == {"around": 1}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_of_multiprocessing_that_starts_the_agent_itself_sends_its_last_spans(
    receiver: Receiver, tmp_path: Path, method: str
) -> None:
    script = tmp_path / "late.py"
    script.write_text(INSTRUMENTED_LATE)

    done = python(
        script, receiver.endpoint, method, env=environment(OTEL_BSP_SCHEDULE_DELAY="60000")
    )

    assert done.returncode == 0, done.stderr
    assert counted(receiver) == {"child": 1}


def test_the_tasks_of_a_pool_of_processes_arrive_once_each(
    receiver: Receiver, tmp_path: Path
) -> None:
    done = ran(receiver, tmp_path, POOL, sys.executable, str(tmp_path / "shop.py"))

    assert done.returncode == 0, done.stderr
    assert counted(receiver) == {"task": 10}


def test_a_python_that_a_program_starts_sends_its_own_spans(
    receiver: Receiver, tmp_path: Path
) -> None:
    done = ran(receiver, tmp_path, SUBPROCESS, sys.executable, str(tmp_path / "shop.py"))

    assert done.returncode == 0, done.stderr
    assert counted(receiver) == {"parent": 1, "child": 1}
    assert len(processes(receiver.spans)) == 2


def test_a_console_script_is_traced(receiver: Receiver, tmp_path: Path) -> None:
    script = tmp_path / "shopctl"
    script.write_text(f"#!{sys.executable}\nfrom shop import main\nmain()\n")
    script.chmod(0o755)
    program = "import latencytrace\n@latencytrace.stage('order')\ndef main(): pass\n"

    done = ran(receiver, tmp_path, program, str(script))

    assert done.returncode == 0, done.stderr
    assert counted(receiver) == {"order": 1}
    assert receiver.spans[0].resource["service.name"] == "shopctl"
