"""Generations in every form that models are run in, and the passes that a device makes of them."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest
import torch
from transformers import LogitsProcessor

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.device.timers import DeviceTimers
from latencytrace.agent.hooks.transformers import TransformersHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.cuda import FakeCuda
from tests.support.later import Later
from tests.support.models.tiny_chat import END, TinyChat

dynamo = Later("torch._dynamo.utils")
TOKENS = 5
PROMPT = 24
Form = Callable[[Any], Mapping[str, Any]]  # prepares a model; how it is asked then


class Boundaries(LogitsProcessor):  # type: ignore[misc]  # transformers has no types
    """Notes when each forward pass was over: the first that it is shown ends the prefill."""

    def __init__(self) -> None:
        self.at_ns: list[int] = []

    def __call__(self, _: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """As transformers calls it."""
        self.at_ns.append(monotonic_ns())
        scores[:, END] = float("-inf")
        return scores


class RealTimeCuda(FakeCuda):
    """A device that is as fast as the host and on its clock."""

    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.clock = monotonic_ns  # type: ignore[assignment]  # it moves by itself


@pytest.fixture
def cuda() -> RealTimeCuda:
    return RealTimeCuda()


@pytest.fixture
def spans(cuda: RealTimeCuda) -> Iterator[Spans]:
    with hooked(TransformersHook) as spans:
        spans.recorder.devices = DeviceTimers(lambda _: cuda)
        yield spans


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    torch.compiler.reset()
    dynamo.counters.clear()
    yield
    torch.compiler.reset()


def plain(_: Any) -> Mapping[str, Any]:
    return {}


def static_cache(_: Any) -> Mapping[str, Any]:
    return {"cache_implementation": "static", "disable_compile": True}


def chunked(_: Any) -> Mapping[str, Any]:
    return {"prefill_chunk_size": 8}


def without_cache(_: Any) -> Mapping[str, Any]:
    return {"use_cache": False}


def compiled(model: Any) -> Mapping[str, Any]:
    model.forward = torch.compile(model.forward, backend="eager", fullgraph=True)
    return {}


def compiled_in_place(model: Any) -> Mapping[str, Any]:
    model.compile(backend="eager", fullgraph=True)
    return {}


def of_stage(spans: Spans, stage: Stage) -> RecordedSpan:
    (span,) = spans.of(stage)
    return span


@pytest.mark.parametrize(
    ("form", "is_compiled"),
    [
        (plain, False),
        (static_cache, False),
        (chunked, False),
        (without_cache, False),
        pytest.param(compiled, True, marks=pytest.mark.long),
        pytest.param(compiled_in_place, True, marks=pytest.mark.long),
    ],
)
def test_prefill_and_decode_are_told_apart_in_every_form_of_model(
    spans: Spans, tiny_chat: TinyChat, form: Form, *, is_compiled: bool
) -> None:
    boundaries = Boundaries()
    model = deepcopy(tiny_chat.model)  # a compiled one stays so
    how = form(model)

    model.generate(
        tiny_chat.prompt(PROMPT),
        max_new_tokens=TOKENS,
        do_sample=False,
        logits_processor=[boundaries],
        **how,
    )

    prefill, decode = of_stage(spans, Stage.PREFILL), of_stage(spans, Stage.DECODE)
    first_ns, *others_ns = boundaries.at_ns
    assert prefill.started_ns < first_ns <= prefill.ended_ns == decode.started_ns
    assert all(decode.started_ns < at_ns <= decode.ended_ns for at_ns in others_ns)
    assert prefill.attributes[semconv.DEVICE_PASSES] == 1
    assert decode.attributes[semconv.DEVICE_PASSES] == len(others_ns) == TOKENS - 1
    assert dynamo.counters["graph_break"] == {}
    assert (dynamo.counters["stats"]["unique_graphs"] > 0) is is_compiled


def test_the_times_of_the_device_are_on_the_span_with_its_model(
    spans: Spans, tiny_chat: TinyChat
) -> None:
    tiny_chat.model.generate(tiny_chat.prompt(), max_new_tokens=TOKENS, do_sample=False)

    noted = of_stage(spans, Stage.DECODE).attributes
    assert noted[semconv.DEVICE_ID] == "GPU-a"
    assert noted[semconv.GEN_AI_REQUEST_MODEL] == "LlamaForCausalLM"
    weights = sum(each.nbytes for each in tiny_chat.model.parameters())
    looked_up = tiny_chat.model.get_input_embeddings().weight.nbytes
    tied = tiny_chat.model.config.tie_word_embeddings
    assert noted[semconv.WEIGHT_BYTES] == weights - (0 if tied else looked_up)
    assert {semconv.DEVICE_START, semconv.DEVICE_END, semconv.DEVICE_ERROR} <= noted.keys()


@pytest.mark.parametrize("rows", [1, 3])
def test_what_each_pass_must_compute_is_on_its_span(
    spans: Spans, tiny_chat: TinyChat, rows: int
) -> None:
    model = deepcopy(tiny_chat.model).to(torch.bfloat16)
    matrices = sum(each.numel() for each in model.parameters() if each.dim() > 1)
    head = model.get_output_embeddings().weight.numel()
    body = matrices - head - (0 if model.config.tie_word_embeddings else head)

    prompt = tiny_chat.prompt(PROMPT).repeat(rows, 1)
    model.generate(prompt, max_new_tokens=TOKENS, do_sample=False)

    prefill, decode = of_stage(spans, Stage.PREFILL), of_stage(spans, Stage.DECODE)
    assert decode.attributes[semconv.MODEL_FLOPS] == 2 * (body + head) * rows
    assert prefill.attributes[semconv.MODEL_FLOPS] == 2 * (body * prompt.numel() + head * rows)


def test_of_a_model_in_single_precision_no_operations_are_told(
    spans: Spans, tiny_chat: TinyChat
) -> None:
    tiny_chat.model.generate(tiny_chat.prompt(), max_new_tokens=TOKENS, do_sample=False)

    assert semconv.MODEL_FLOPS not in of_stage(spans, Stage.DECODE).attributes


def test_a_phase_that_the_device_is_not_done_with_ends_later_with_the_end_it_had(
    spans: Spans, tiny_chat: TinyChat, cuda: RealTimeCuda
) -> None:
    cuda.work(600_000)  # ten minutes, of somebody else's

    tiny_chat.model.generate(tiny_chat.prompt(), max_new_tokens=TOKENS, do_sample=False)
    at_once = list(spans.names)
    spans.recorder.devices.pending.give_up(None)

    assert at_once == ["generate"]
    assert spans.names == ["generate", "prefill", "decode"]
    generate, prefill, decode = spans.all
    assert prefill.ended_ns == decode.started_ns
    assert decode.ended_ns == generate.ended_ns
    assert decode.attributes[semconv.DEVICE_UNMEASURED] == TOKENS - 1


def test_on_a_cpu_nothing_is_noted_of_devices(tiny_chat: TinyChat) -> None:
    with hooked(TransformersHook) as spans:
        tiny_chat.model.generate(tiny_chat.prompt(), max_new_tokens=TOKENS, do_sample=False)

    noted = {key for span in spans.all for key in span.attributes}
    assert not {key for key in noted if key.startswith("latencytrace.device")}
