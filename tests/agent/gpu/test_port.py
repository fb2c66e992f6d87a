"""A port of the program itself at which a Prometheus reads GPUs."""

import logging
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from latencytrace.agent.gpu.port import AGAIN_AFTER_NS, SILENT_NS, GpuPort
from latencytrace.agent.gpu.sampler import SamplerState
from latencytrace.agent.guard import raise_fault
from latencytrace.model.gpu import GPU_METRICS
from tests.support.builders.gpu_requests import sample, whole_sample
from tests.support.fakes.contracts import FakeClock
from tests.support.waiting import PATIENCE_S, until

FORKS = """
import os, httpx
from latencytrace.agent.gpu.port import GpuPort
from latencytrace.agent.gpu.sampler import SamplerState
from latencytrace.agent.guard import raise_fault
from tests.support.builders.gpu_requests import sample
port = GpuPort(("127.0.0.1", 0), SamplerState, lambda: 1, raise_fault)
port.take([sample()])
if os.fork() == 0:
    port.reset_after_fork()
    print("child", port.listens_at, flush=True)
    os._exit(0)
os.wait()
answer = httpx.get("http://%s:%d/metrics" % port.listens_at, timeout=100, trust_env=False)
print("parent", "latencytrace_gpu_power_watts" in answer.text, flush=True)
"""
ABOUT = {"gpu": "0", "uuid": "GPU-a", "name": "NVIDIA H200"}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_000_000_000)


@pytest.fixture
def state() -> SamplerState:
    return SamplerState()


@pytest.fixture
def port(clock: FakeClock, state: SamplerState) -> Iterator[GpuPort]:
    found = GpuPort(("127.0.0.1", 0), lambda: state, clock, raise_fault)
    yield found
    found.close()


def address(port: GpuPort) -> str:
    assert port.listens_at is not None
    host, number = port.listens_at
    return f"http://{host}:{number}"


def asked(port: GpuPort, path: str = "/metrics") -> str:
    answer = httpx.get(f"{address(port)}{path}", timeout=PATIENCE_S, trust_env=False)
    return answer.raise_for_status().text


def values(text: str) -> dict[str, tuple[dict[str, str], float]]:
    return {
        found.name: (found.labels, found.value)
        for family in text_string_to_metric_families(text)
        for found in family.samples
    }


def is_free(at: tuple[str, int]) -> bool:
    try:
        socket.create_server(at).close()
    except OSError:
        return False
    return True


def test_the_last_values_are_told_under_the_service_s_names(port: GpuPort) -> None:
    port.take([sample(1, 0.4), sample(2, 0.61)])

    told = values(asked(port))

    ratio = "latencytrace_gpu_memory_bandwidth_utilization_ratio"
    assert told[ratio] == ({**ABOUT, "method": "gpm"}, 0.61)
    assert told["latencytrace_gpu_energy_joules_total"] == (ABOUT, 500)


def test_every_metric_can_be_told(port: GpuPort) -> None:
    port.take([whole_sample()])

    told = {name.removesuffix("_total") for name in values(asked(port))}

    assert {f"latencytrace_gpu_{form.prometheus}" for form in GPU_METRICS.values()} <= told


def test_how_the_reading_goes_is_told_too(port: GpuPort, state: SamplerState) -> None:
    port.take([sample()])
    state.tick_ns = 2_000_000
    state.errors["nvmlDeviceGetPowerUsage", "NotSupported"] += 3

    told = values(asked(port))

    errors = {"call": "nvmlDeviceGetPowerUsage", "error": "NotSupported"}
    assert told["latencytrace_gpu_sampler_tick_seconds"] == ({}, 0.002)
    assert told["latencytrace_gpu_sampler_errors_total"] == (errors, 3)


def test_what_was_not_read_lately_is_not_told(port: GpuPort, clock: FakeClock) -> None:
    port.take([sample()])

    clock.now_ns += SILENT_NS + 1

    assert "latencytrace_gpu_power_watts" not in values(asked(port))


def test_nobody_listens_before_a_gpu_was_read(port: GpuPort) -> None:
    assert port.listens_at is None


def test_another_path_is_not_there(port: GpuPort) -> None:
    port.take([sample()])

    with pytest.raises(httpx.HTTPStatusError, match="404"):
        asked(port, "/secret")


def test_who_says_nothing_holds_nobody_up_for_long(
    port: GpuPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latencytrace.agent.gpu.port._Handler.timeout", 1.0)
    port.take([sample()])

    assert port.listens_at is not None
    with socket.create_connection(port.listens_at):
        assert "latencytrace_gpu_power_watts" in asked(port)


def test_a_port_that_is_taken_is_said_once_and_tried_again(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = GpuPort(other.getsockname(), SamplerState, clock, raise_fault)
        for _ in range(3):
            port.take([sample()])
            clock.now_ns += AGAIN_AFTER_NS
        meanwhile = port.listens_at

    port.take([sample()])

    assert (meanwhile, port.listens_at is not None) == (None, True)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "Address already in use" in caplog.text
    port.close()


def test_a_package_that_is_missing_is_said_once(
    port: GpuPort, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("latencytrace.agent.gpu.port.find_spec", lambda _: None)

    port.take([sample()])
    port.take([sample()])

    assert port.listens_at is None
    (record,) = caplog.records
    assert "prometheus-client is not installed" in record.getMessage()


def test_once_closed_the_port_is_free(port: GpuPort) -> None:
    port.take([sample()])
    at = port.listens_at
    asked(port)

    port.close()

    assert at is not None
    until(lambda: is_free(at))


def test_a_forked_child_leaves_the_port_to_its_parent() -> None:
    program = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS]

    done = subprocess.run(program, capture_output=True, text=True, timeout=100, check=True)

    assert done.stdout.split() == ["child", "None", "parent", "True"]
