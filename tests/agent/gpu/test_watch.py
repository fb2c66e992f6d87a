"""The agent reads GPUs, in programs that find a fake of NVIDIA's library as the driver's."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from latencytrace.errors import SettingsError
from latencytrace.model import semconv
from latencytrace.model.gpu import GpuMetric
from latencytrace.settings import agent_settings
from tests.support.agent.receiving import Receiver, attributes_of
from tests.support.fakes import nvml as fake_nvml
from tests.support.servers.command_line import python
from tests.support.waiting import until

READS = """
import latencytrace, os, sys
latencytrace.instrument("rag", hooks=[])
{then}
print("\\n", flush=True)
sys.stdin.read()
"""
SAYS = """
import latencytrace, logging, os, threading, time
logging.basicConfig()
logged = threading.Event()
logging.getLogger().handlers[0].addFilter(lambda _: logged.set() or True)
latencytrace.instrument("rag", hooks=[])
until = time.monotonic() + 100
while "not begun" in latencytrace.agent_status().gpu and time.monotonic() < until:
    time.sleep(0.01)
if os.environ.get("LATENCYTRACE_GPU") == "1":  # then it says in the log what it cannot do
    logged.wait(100)
print(latencytrace.agent_status().gpu)
"""

SHOWS = """
import latencytrace, sys, time
latencytrace.instrument("rag", hooks=[])
until = time.monotonic() + 100
while "shown at" not in latencytrace.agent_status().gpu and time.monotonic() < until:
    time.sleep(0.01)
print(latencytrace.agent_status().gpu.rpartition("shown at ")[2], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library of the driver's name in it."""
    if fake_nvml.compiler() is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("driver")
    fake_nvml.build(folder, fake_nvml.SONAME)
    return folder


def environment(receiver: Receiver, folder: Path, **more: str) -> Mapping[str, str]:
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder),
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "LATENCYTRACE_GPU": "auto",
        "TMPDIR": str(folder),
        **more,
    }


def said(receiver: Receiver, folder: Path, **more: str) -> tuple[str, str]:
    """What the agent says of GPUs, and what it logs."""
    done = python("-c", SAYS, env=environment(receiver, folder, **more), check=True)
    return done.stdout.strip(), done.stderr


def values(receiver: Receiver, metric: str) -> dict[str, float]:
    """The last value of a metric by GPU."""
    return {
        str(attributes_of(point.attributes).get(semconv.HW_ID)): point.as_double
        for request in receiver.reports
        for of_resource in request.resource_metrics
        for of_scope in of_resource.scope_metrics
        for found in of_scope.metrics
        if found.name == metric
        for point in found.gauge.data_points
    }


@pytest.mark.parametrize(
    "then",
    ["", "if os.fork(): os.wait()"],
    ids=["one process", "a forked child beside it"],
)
def test_every_gpu_is_read_and_reported_without_a_word_in_the_program(
    receiver: Receiver, driver: Path, then: str
) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", READS.format(then=then)],
        env=environment(receiver, driver, FAKE_NVML_COUNT="2", FAKE_NVML_BUSY="61"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        until(lambda: len(values(receiver, GpuMetric.BANDWIDTH_UTILIZATION)) == 2)
    finally:
        program.communicate(timeout=100)

    shares = values(receiver, GpuMetric.BANDWIDTH_UTILIZATION).values()
    assert [*shares] == pytest.approx([0.61, 0.61])
    assert program.returncode == 0


def test_it_says_what_it_reads(receiver: Receiver, driver: Path) -> None:
    status, logged = said(receiver, driver, FAKE_NVML_COUNT="2")

    assert status.startswith("2 read every")
    assert status.endswith("NVIDIA H200")
    assert logged == ""


def test_it_says_which_of_them_the_program_sees(receiver: Receiver, driver: Path) -> None:
    status, _ = said(receiver, driver, FAKE_NVML_COUNT="2", CUDA_VISIBLE_DEVICES="1")

    assert status.endswith("of them this program sees GPU-00000000-0000-0000-0000-000000000001")


def test_where_there_is_no_driver_it_is_quiet(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / fake_nvml.SONAME).write_text("no library")  # hides a real one

    status, logged = said(receiver, tmp_path)

    assert status.startswith("none is read: libnvidia-ml.so.1 is not there")
    assert logged == ""


def test_where_it_was_asked_for_the_log_says_why_not(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / fake_nvml.SONAME).write_text("no library")

    logged = said(receiver, tmp_path, LATENCYTRACE_GPU="1")[1]

    assert "latencytrace reads no GPU: libnvidia-ml.so.1 is not there" in logged


def test_without_a_service_a_prometheus_may_ask_the_program_itself(
    receiver: Receiver, driver: Path
) -> None:
    more = {"LATENCYTRACE_GPU_PORT": "0", "OTEL_METRICS_EXPORTER": "none"}

    with subprocess.Popen(
        [sys.executable, "-c", SHOWS],
        env=environment(receiver, driver, FAKE_NVML_BUSY="61", **more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:  # it ends when nobody writes to it any more
        assert program.stdout is not None
        address = program.stdout.readline().strip()
        text = httpx.get(f"http://{address}/metrics", timeout=100, trust_env=False).text

    assert "latencytrace_gpu_power_watts{" in text
    assert program.returncode == 0


def test_switched_off_it_touches_no_driver(receiver: Receiver, driver: Path) -> None:
    program = "import latencytrace, sys; latencytrace.instrument(hooks=[]);"
    program += "print(latencytrace.agent_status().gpu, 'pynvml' in sys.modules)"

    done = python(
        "-c", program, env=environment(receiver, driver, LATENCYTRACE_GPU="0"), check=True
    )

    assert done.stdout.strip() == "None False"


@pytest.mark.parametrize(
    ("environ", "is_read"),
    [({}, None), ({"LATENCYTRACE_GPU": "0"}, False), ({"LATENCYTRACE_GPU": "on"}, True)],
)
def test_whether_gpus_are_read(environ: Mapping[str, str], *, is_read: bool | None) -> None:
    assert agent_settings(environ=environ).gpu is is_read


@pytest.mark.parametrize(
    "environ",
    [
        {"LATENCYTRACE_GPU": "maybe"},
        {"LATENCYTRACE_GPU_INTERVAL": "0.01"},
        {"LATENCYTRACE_GPU_PORT": "here"},
    ],
)
def test_what_cannot_be_meant_is_refused(environ: Mapping[str, str]) -> None:
    with pytest.raises(SettingsError, match="LATENCYTRACE_GPU"):
        agent_settings(environ=environ)
