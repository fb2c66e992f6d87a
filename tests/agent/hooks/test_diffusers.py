"""The hook of diffusers, with a pipeline of random weights."""

import pytest

from latencytrace.agent.hooks.runtimes import DiffusersHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, in_request

diffusers = pytest.importorskip("diffusers")
torch = pytest.importorskip("torch")

HOOKS = (DiffusersHook,)
STEPS = 3


def test_a_pipeline_s_passes_and_steps_are_spans_of_a_request(spans: Spans) -> None:
    blocks = ("DownBlock2D", "DownBlock2D"), ("UpBlock2D", "UpBlock2D")
    unet = diffusers.UNet2DModel(
        sample_size=8,
        block_out_channels=(32, 32),
        layers_per_block=1,
        down_block_types=blocks[0],
        up_block_types=blocks[1],
    )
    pipeline = diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler())
    pipeline.set_progress_bar_config(disable=True)

    in_request(spans, lambda: pipeline(num_inference_steps=STEPS))

    assert spans.names == [*["UNet2DModel", "scheduler step"] * STEPS, "request"]
    assert set(spans.stages[:-1]) == {Stage.FORWARD}


def test_decoding_what_an_autoencoder_made_is_a_pass(spans: Spans) -> None:
    autoencoder = diffusers.AutoencoderKL(block_out_channels=(32,), norm_num_groups=1)
    images = diffusers.image_processor.VaeImageProcessor(vae_scale_factor=1)

    def make() -> None:
        with torch.inference_mode():
            made = autoencoder.decode(torch.zeros(1, 4, 8, 8)).sample
        images.postprocess(made)

    autoencoder.decode(torch.zeros(1, 4, 8, 8))  # outside of any request
    in_request(spans, make)

    assert spans.names == ["decode", "postprocess", "request"]
    assert spans.stages[:2] == [Stage.FORWARD, Stage.POSTPROCESS]
