"""Copies between host and device; torch's `meta` device stands for one that has events."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from latencytrace.agent.device.timers import DeviceTimers
from latencytrace.agent.hooks.torch_copies import TorchCopiesHook
from latencytrace.agent.timing.hook import HookOptions
from latencytrace.agent.toolkit.models.device_copies import DeviceCopies
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked, in_request
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.cuda import FakeCuda

METHODS = ("to", "cuda", "cpu", "copy_")
COPIES = HookOptions(torch_copies=True)
X = torch.arange(4.0)
MS = 1_000_000


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda(FakeClock(1_000_000_000))


@pytest.fixture
def spans(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with hooked(TorchCopiesHook, options=COPIES) as spans:
        spans.recorder.devices = DeviceTimers(
            lambda device: cuda if device.type == "meta" else None, cuda.clock
        )
        yield spans


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize(
    "copy",
    [
        lambda: X.to("meta"),
        lambda: X.to(device=torch.device("meta")),
        lambda: X.to(torch.empty(0, device="meta")),
        lambda: X.to("meta", torch.float16),
        lambda: nn.Parameter(X).to("meta"),
        lambda: torch.empty(4, device="meta").copy_(X),
    ],
    ids=["name", "device", "like", "and-type", "parameter", "copy_"],
)
def test_a_copy_to_a_device_is_one_span_with_its_size(
    spans: Spans, copy: Callable[[], object]
) -> None:
    in_request(spans, copy)

    span, _ = spans.all
    assert (span.name, span.attributes[semconv.STAGE]) == ("copy to device", Stage.TRANSFER)
    assert span.attributes[semconv.TRANSFER_BYTES] == X.numel() * X.element_size()
    assert span.attributes[semconv.TRANSFER_DIRECTION] == "to_device"
    assert span.attributes[semconv.DEVICE_PASSES] == 1


@pytest.mark.parametrize(
    "nothing",
    [
        lambda: X.to(torch.float64),
        lambda: X.to("cpu"),
        X.cpu,
        lambda: torch.empty(4, device="meta").to("meta"),
        lambda: torch.empty(4).copy_(X),
    ],
    ids=["type", "same", "cpu", "same-device", "copy_"],
)
def test_what_copies_nothing_between_host_and_device_is_no_span(
    spans: Spans, nothing: Callable[[], object]
) -> None:
    in_request(spans, nothing)

    assert spans.names == ["request"]


def test_a_copy_outside_of_a_request_is_not_timed(spans: Spans, cuda: FakeCuda) -> None:
    X.to("meta")

    assert (spans.all, cuda.made) == ([], 0)


def test_a_copy_that_raises_is_no_span_and_the_next_one_is(spans: Spans) -> None:
    def call() -> None:
        with pytest.raises(NotImplementedError):
            torch.empty(4, device="meta").cpu()  # nothing to be copied is there
        X.to("meta")

    in_request(spans, call)

    assert spans.names == ["copy to device", "request"]


def test_a_device_that_is_none_is_the_program_s_own_mistake(spans: Spans) -> None:
    with pytest.raises(RuntimeError, match="nowhere"):
        in_request(spans, lambda: X.to("nowhere"))

    assert spans.names == ["request"]


def test_of_many_copies_the_first_are_timed_and_the_others_counted(spans: Spans) -> None:
    in_request(spans, lambda: [X.to("meta") for _ in range(40)])

    assert spans.names.count("copy to device") == 32
    assert spans.all[-1].attributes[semconv.TRANSFERS_UNTIMED] == 8


def test_nothing_is_recorded_while_a_graph_is_captured(spans: Spans, cuda: FakeCuda) -> None:
    cuda.captures = True

    in_request(spans, lambda: X.to("meta"))

    assert (spans.names, cuda.made, cuda.asked_while_capturing) == (["request"], 0, False)


def test_a_copy_that_the_host_does_not_wait_for_ends_when_the_device_is_done(
    spans: Spans, cuda: FakeCuda
) -> None:
    cuda.work(20)
    in_request(spans, lambda: X.to("meta", non_blocking=True))
    at_once = list(spans.names)
    cuda.wait()

    spans.recorder.devices.pending.settle()

    assert (at_once, spans.names) == (["request"], ["request", "copy to device"])


def test_a_wait_for_the_device_s_earlier_work_is_no_time_of_the_copy(spans: Spans) -> None:
    def call() -> None:
        copy = DeviceCopies(spans.recorder).begin(torch.device("meta"), "to_host", 4)
        assert copy is not None
        copy.note({semconv.DEVICE_START: 20 * MS, semconv.DEVICE_END: 24 * MS})
        copy.end(copy.started_ns + 25 * MS)
        copy.drop()

    in_request(spans, call)

    span, _ = spans.all
    assert span.end_time is not None
    assert span.start_time is not None
    assert span.end_time - span.start_time == 5 * MS
    assert span.attributes[semconv.DEVICE_START] == 0
    assert span.attributes[semconv.DEVICE_END] == 4 * MS


def in_graph(x: Tensor) -> Tensor:
    moved = x.to(torch.float64).cpu()
    return Tensor.to(moved, torch.float32).clone().copy_(x) + x.to("cpu")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_function_that_copies_stays_one_graph(spans: Spans, backend: str) -> None:
    compiled = torch.compile(in_graph, backend=backend, fullgraph=True)

    in_request(spans, lambda: [compiled(X), compiled(X)])

    assert compiled(X).tolist() == (X * 2).tolist()
    assert spans.names == ["request"]


def test_a_program_can_be_exported_scripted_and_traced(spans: Spans) -> None:
    class Casts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.to(torch.float64).cpu()

    exported = torch.export.export(Casts(), (X,)).module()

    assert exported(X).dtype == torch.float64
    assert torch.fx.symbolic_trace(Casts())(X).dtype == torch.float64
    assert spans.all == []


def test_a_subclass_of_tensors_sees_the_method_that_it_can_name(spans: Spans) -> None:
    seen = []

    class Quantised(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN206
            seen.append(func is Tensor.to)
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call] # torch's

    in_request(spans, lambda: X.as_subclass(Quantised).to("meta"))

    assert (seen, spans.names) == ([True], ["request"])


def test_tensors_are_left_as_they_were() -> None:
    before = {name: vars(Tensor).get(name) for name in dir(Tensor)}

    with hooked(TorchCopiesHook, options=COPIES):
        during = {name: vars(Tensor).get(name) for name in dir(Tensor)}

    assert {name: vars(Tensor).get(name) for name in dir(Tensor)} == before
    assert during.keys() - before.keys() == {f"_latencytrace_{name}" for name in METHODS}


def test_no_method_of_tensors_is_touched_unless_asked_for() -> None:
    assert TorchCopiesHook.table(HookOptions()) == ()
