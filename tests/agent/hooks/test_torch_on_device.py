"""Modules that a user names, and the passes that a device makes of their calls."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from latencytrace.agent.device.timers import DeviceTimers
from latencytrace.agent.hooks.torch import TorchHook
from latencytrace.agent.timing.hook import HookOptions
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.cuda import FakeCuda
from tests.support.models.torch_modules import Encoder, Fails

MODULE = "tests.support.models.torch_modules"
X = torch.arange(4.0)
Form = Callable[[nn.Module], Callable[[Tensor], Tensor]]


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda(FakeClock(1_000_000_000))


@pytest.fixture
def spans(cuda: FakeCuda) -> Iterator[Spans]:
    options = HookOptions(torch_modules=(f"{MODULE}:Encoder", f"{MODULE}:Fails"))
    with hooked(TorchHook, options=options) as spans:
        spans.recorder.devices = DeviceTimers(lambda _: cuda, cuda.clock)
        yield spans


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def plain(module: nn.Module) -> Callable[[Tensor], Tensor]:
    return module


def compiled(module: nn.Module) -> Callable[[Tensor], Tensor]:
    return torch.compile(module, backend="eager", fullgraph=True)


def compiled_in_place(module: nn.Module) -> Callable[[Tensor], Tensor]:
    module.compile(backend="eager", fullgraph=True)
    return module


@pytest.mark.parametrize("form", [plain, compiled, compiled_in_place])
def test_each_call_is_one_pass_outside_of_any_graph(spans: Spans, form: Form) -> None:
    model = form(Encoder())

    model(X)
    model(X)

    assert [span.attributes[semconv.DEVICE_PASSES] for span in spans.all] == [1, 1]


def test_a_call_whose_device_still_works_ends_when_that_is_done(
    spans: Spans, cuda: FakeCuda
) -> None:
    cuda.work(20)
    Encoder()(X)
    at_once = list(spans.names)
    cuda.wait()

    spans.recorder.devices.pending.settle()

    assert at_once == []
    assert spans.names == ["Encoder"]


def test_a_call_that_raises_ends_its_pass_and_its_span(spans: Spans) -> None:
    with pytest.raises(LookupError):
        Fails()(X)

    assert spans.only.attributes[semconv.DEVICE_PASSES] == 1
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"


def test_a_call_without_tensors_is_timed_on_the_host(spans: Spans, cuda: FakeCuda) -> None:
    spans.recorder.devices = DeviceTimers(lambda device: cuda if device is not None else None)

    with pytest.raises(TypeError):
        Encoder()()

    assert semconv.DEVICE_PASSES not in spans.only.attributes
