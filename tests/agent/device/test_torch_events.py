"""Events of a real GPU; skipped where there is none."""

import pytest
import torch

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.device.timer import DeviceTimer
from latencytrace.agent.device.timers import torch_events
from latencytrace.model import semconv

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def timer() -> DeviceTimer:
    events = torch_events(torch.device("cuda:0"))
    assert events is not None
    return DeviceTimer(events, monotonic_ns)


def test_a_pass_takes_as_long_as_the_host_sees_when_it_waits() -> None:
    matrix = torch.randn(8192, 8192, device="cuda")
    timing = timer()
    matrix @ matrix
    torch.cuda.synchronize()
    began_ns = monotonic_ns()
    passes = timing.passes()

    passes.begin()
    for _ in range(20):
        matrix @ matrix
    passes.end()
    torch.cuda.synchronize()
    waited_ns = monotonic_ns() - began_ns

    assert passes.settle()
    noted = passes.attributes(began_ns)
    assert noted[semconv.DEVICE_DURATION] == pytest.approx(waited_ns, rel=0.1)
    assert str(noted[semconv.DEVICE_ID]).startswith("GPU-")


def test_a_graph_that_is_captured_stays_whole() -> None:
    timing = timer()
    x = torch.randn(64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    passes = timing.passes()

    with torch.cuda.graph(graph):
        passes.begin()
        y = x * 2
        passes.end()
        passes.settle()
    graph.replay()
    torch.cuda.synchronize()

    assert torch.equal(y, x * 2)
    assert passes.unmeasured == 1
