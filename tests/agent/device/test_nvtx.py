"""Ranges for NVIDIA's profilers, on a fake device, with a recorder of torch's calls."""

import inspect
import logging
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from torch.cuda import nvtx

from latencytrace.agent.device.timer import DeviceTimer, torch_ranges
from latencytrace.agent.device.timers import DeviceTimers
from latencytrace.agent.hooks.transformers import TransformersHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, hooked
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.cuda import FakeCuda
from tests.support.models.tiny_chat import TinyChat, tiny_chat


class RecordedRanges:
    """As `torch.cuda.nvtx`."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.open: set[int] = set()

    def range_start(self, msg: str) -> int:
        """See `DeviceRanges`."""
        self.begun.append(msg)
        self.open.add(len(self.begun))
        return len(self.begun)

    def range_end(self, range_id: int) -> None:
        """See `DeviceRanges`; a second end would be a fault."""
        self.open.remove(range_id)


@pytest.fixture
def ranges() -> RecordedRanges:
    return RecordedRanges()


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda(FakeClock(1_000_000_000))


@pytest.fixture
def timer(cuda: FakeCuda, ranges: RecordedRanges) -> DeviceTimer:
    return DeviceTimer(cuda, cuda.clock, ranges)


@pytest.fixture(scope="module")
def chat() -> TinyChat:
    return tiny_chat()


@pytest.fixture
def spans(chat: TinyChat, cuda: FakeCuda, ranges: RecordedRanges) -> Iterator[Spans]:
    assert chat.model is not None  # transformers is imported
    with hooked(TransformersHook) as spans:
        spans.recorder.devices = DeviceTimers(lambda _: cuda, cuda.clock, lambda: ranges)
        yield spans


def test_a_generation_is_a_range_of_prefill_and_one_of_decode_for_each_token(
    spans: Spans, chat: TinyChat, ranges: RecordedRanges
) -> None:
    chat.model.generate(chat.prompt(), max_new_tokens=4, min_new_tokens=4, do_sample=False)

    assert spans.recorder.devices is not None
    assert ranges.begun[:4] == ["prefill", "decode", "decode", "decode"]
    assert set(ranges.begun[4:]) <= {"decode"}  # one that is begun for a token that does not come
    assert ranges.open == set()


def test_a_pass_that_does_not_end_ends_its_range(
    timer: DeviceTimer, ranges: RecordedRanges
) -> None:
    passes = timer.passes(Stage.EMBED)
    passes.begin()
    passes.begin()
    passes.abandon()

    assert ranges.begun == ["embed", "embed"]
    assert ranges.open == set()


def test_there_is_none_while_a_graph_is_captured(
    timer: DeviceTimer, cuda: FakeCuda, ranges: RecordedRanges
) -> None:
    passes = timer.passes()
    cuda.captures = True
    passes.begin()
    passes.end()

    assert ranges.begun == []


def test_one_that_began_before_a_capture_ends(
    timer: DeviceTimer, cuda: FakeCuda, ranges: RecordedRanges
) -> None:
    passes = timer.passes()
    passes.begin()
    cuda.captures = True
    passes.end()

    assert (ranges.begun, ranges.open) == (["forward"], set())


def test_torch_has_the_calls_that_ranges_are_made_with() -> None:
    assert list(inspect.signature(nvtx.range_start).parameters) == ["msg"]
    assert list(inspect.signature(nvtx.range_end).parameters) == ["range_id"]


@pytest.mark.skipif(torch.version.cuda is not None, reason="a build with CUDA has NVTX")
def test_a_torch_without_cuda_has_none_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert torch_ranges() is None

    assert "this torch has no NVTX" in caplog.text


def test_a_program_without_torch_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))

    assert torch_ranges() is None
