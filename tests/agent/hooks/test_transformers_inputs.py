"""Inputs that transformers made, moved to torch's `meta` device, which stands for a GPU."""

from collections.abc import Iterator

import pytest
import torch
from transformers import BatchEncoding, BatchFeature

from latencytrace.agent.device.timers import DeviceTimers
from latencytrace.agent.hooks.torch_copies import TorchCopiesHook
from latencytrace.agent.hooks.transformers_inputs import TransformersInputsHook
from latencytrace.agent.timing.hook import HookOptions
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked, in_request
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.cuda import FakeCuda

IDS = torch.arange(4)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    cuda = FakeCuda(FakeClock(1_000_000_000))
    options = HookOptions(torch_copies=True)
    with hooked(TransformersInputsHook, TorchCopiesHook, options=options) as spans:
        spans.recorder.devices = DeviceTimers(
            lambda device: cuda if device.type == "meta" else None, cuda.clock
        )
        yield spans


@pytest.mark.parametrize("made", [BatchEncoding, BatchFeature])
def test_the_move_of_all_tensors_of_a_batch_is_one_copy(
    spans: Spans, made: type[BatchEncoding | BatchFeature]
) -> None:
    batch = made({"input_ids": IDS, "attention_mask": IDS})

    in_request(spans, lambda: batch.to("meta"))

    span, _ = spans.all
    assert (span.name, span.attributes[semconv.STAGE]) == ("copy to device", Stage.TRANSFER)
    assert span.attributes[semconv.TRANSFER_BYTES] == 2 * IDS.numel() * IDS.element_size()
    assert batch["input_ids"].device.type == "meta"


def test_a_batch_that_stays_where_it_is_is_no_copy(spans: Spans) -> None:
    moved = BatchEncoding({"input_ids": torch.empty(4, device="meta")})

    in_request(spans, lambda: [BatchEncoding({"input_ids": IDS}).to("cpu"), moved.to("meta")])

    assert spans.names == ["request"]


def test_a_device_that_is_none_is_the_program_s_own_mistake(spans: Spans) -> None:
    with pytest.raises(RuntimeError, match="nowhere"):
        in_request(spans, lambda: BatchEncoding({"input_ids": IDS}).to("nowhere"))

    assert spans.names == ["request"]
