"""The hook of transformers' processors, of audio and of images."""

from typing import Any

import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from latencytrace.agent.hooks.transformers_inputs import TransformersProcessorsHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, in_request

HOOKS = (TransformersProcessorsHook,)


def test_features_of_audio_are_preprocessing(spans: Spans) -> None:
    extract: Any = WhisperFeatureExtractor(feature_size=8, chunk_length=1)
    samples = np.zeros(16_000, dtype="float32")
    extract(samples, sampling_rate=16_000, return_tensors="np")  # outside of any request
    made: list[Any] = []

    in_request(
        spans, lambda: made.append(extract(samples, sampling_rate=16_000, return_tensors="np"))
    )

    assert made[0]["input_features"].shape == (1, 8, 100)
    assert (spans.names, spans.stages[0]) == (["process inputs", "request"], Stage.PREPROCESS)


def test_an_error_passes_through(spans: Spans) -> None:
    extract: Any = WhisperFeatureExtractor(feature_size=8, chunk_length=1)

    def work() -> None:
        with pytest.raises(ValueError, match="sampling"):
            extract(np.zeros(10, dtype="float32"), sampling_rate=8_000)

    in_request(spans, work)

    assert spans.all[0].attributes[semconv.ERROR_TYPE] == "ValueError"


def test_images_are_one_span_whatever_their_processor(spans: Spans) -> None:
    pytest.importorskip("PIL")
    images = pytest.importorskip("transformers.models.vit.image_processing_pil_vit")
    process: Any = images.ViTImageProcessorPil(size={"height": 4, "width": 4})
    image = np.zeros((8, 8, 3), dtype="uint8")

    in_request(spans, lambda: process(image, return_tensors="np"))

    assert (spans.names, spans.stages[0]) == (["process inputs", "request"], Stage.PREPROCESS)
