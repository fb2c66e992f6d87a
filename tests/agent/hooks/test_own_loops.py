"""Generation loops of a program's own, as FastChat has one, with a model of random weights."""

import gc
import weakref
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import pytest
import torch
from transformers import DynamicCache, LlamaForCausalLM

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.device.timers import DeviceTimers
from latencytrace.agent.hooks.transformers import TransformersHook
from latencytrace.agent.hooks.transformers_forward import TransformersForwardHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.toolkit.own_request import OwnRequest
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_token_times
from tests.support.agent.hooked import Spans
from tests.support.fakes.contracts import FakeClock
from tests.support.fakes.cuda import FakeCuda
from tests.support.models.tiny_chat import TinyChat

HOOKS = (TransformersHook, TransformersForwardHook)
PROMPT = torch.ones((2, 7), dtype=torch.long)
ONE = torch.ones((2, 1), dtype=torch.long)
TOKENS = 5


def in_own_request(spans: Spans, call: Callable[[], object]) -> None:
    request = OwnRequest(spans.recorder, "chat", {})
    request.activate()
    try:
        call()
    except BaseException as error:
        request.fail(error)
        raise
    finally:
        request.deactivate()
        request.end()


def with_cache(cache: Any) -> dict[str, Any]:
    """It as this version of transformers calls it."""
    return {
        "cache"
        if "cache" in signature(LlamaForCausalLM.forward).parameters
        else "past_key_values": cache
    }


def cache_of(out: Any) -> Any:
    return vars(out).get("cache") or out.past_key_values


def generated(model: Any, **first: Any) -> Iterator[Any]:
    """Each token of both rows, by a loop of the program's own."""
    out = model(input_ids=PROMPT, use_cache=True, **first)
    for _ in range(TOKENS - 1):
        yield out.logits[:, -1].argmax(-1)
        out = model(input_ids=ONE, use_cache=True, **with_cache(cache_of(out)))
    yield out.logits[:, -1].argmax(-1)


def generate(model: Any, **first: Any) -> list[Any]:
    return [row.tolist() for row in generated(model, **first)]


def only(spans: Spans, stage: Stage) -> RecordedSpan:
    (span,) = spans.of(stage)
    return span


def test_a_loop_is_its_prefill_and_its_decoding(spans: Spans, tiny_chat: TinyChat) -> None:
    in_own_request(spans, lambda: generate(tiny_chat.model))

    request = spans.all[-1]
    prefill, decode = only(spans, Stage.PREFILL), only(spans, Stage.DECODE)
    assert spans.names == ["prefill", "decode", "chat"]
    assert prefill.parent_id == decode.parent_id == request.span_id
    assert prefill.ended_ns == decode.started_ns
    for each in (prefill, decode):
        assert each.attributes[semconv.BATCH_SIZE] == 2
        assert each.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 2 * 7
    assert decode.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 2 * TOKENS
    times = unpack_token_times(str(decode.attributes[semconv.TOKEN_TIMES]), 0)
    assert len(times.lengths_ns) == TOKENS - 1


def test_what_a_loop_makes_is_the_same(spans: Spans, tiny_chat: TinyChat) -> None:
    before = generate(tiny_chat.model)
    answers: list[Any] = []

    in_own_request(spans, lambda: answers.extend(generate(tiny_chat.model)))

    assert answers == before


def test_a_cache_that_the_program_makes_is_one_of_a_prompt(
    spans: Spans, tiny_chat: TinyChat
) -> None:
    cache = DynamicCache()

    in_own_request(spans, lambda: generate(tiny_chat.model, **with_cache(cache)))

    assert spans.names == ["prefill", "decode", "chat"]


def test_a_prompt_in_pieces_is_one_prefill(spans: Spans, tiny_chat: TinyChat) -> None:
    def in_pieces() -> None:
        out = tiny_chat.model(input_ids=PROMPT, use_cache=True)
        for inputs in (PROMPT, ONE):
            out = tiny_chat.model(input_ids=inputs, **with_cache(cache_of(out)))

    in_own_request(spans, in_pieces)

    assert spans.names == ["prefill", "decode", "chat"]


def test_each_generation_of_a_request_has_its_own(spans: Spans, tiny_chat: TinyChat) -> None:
    def twice_in_turns() -> None:
        for _ in zip(generated(tiny_chat.model), generated(tiny_chat.model), strict=True):
            pass

    in_own_request(spans, twice_in_turns)

    assert [
        one.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] for one in spans.of(Stage.DECODE)
    ] == [2 * TOKENS] * 2
    assert len(spans.of(Stage.PREFILL)) == 2


def test_a_loop_that_is_left_ends_with_its_last_pass(spans: Spans, tiny_chat: TinyChat) -> None:
    loops = []

    def left() -> None:
        loop = generated(tiny_chat.model)
        loops.append(loop)
        next(loop), next(loop)

    in_own_request(spans, left)

    decode = only(spans, Stage.DECODE)
    assert decode.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 2 * 2
    assert decode.ended_ns <= spans.all[-1].ended_ns


def test_a_pass_that_raises_is_an_error_of_its_phase(spans: Spans, tiny_chat: TinyChat) -> None:
    with pytest.raises(IndexError):
        in_own_request(spans, lambda: tiny_chat.model(input_ids=PROMPT + 10**6, use_cache=True))

    assert only(spans, Stage.PREFILL).attributes[semconv.ERROR_TYPE] == "IndexError"


def test_a_pass_without_a_cache_is_a_forward_pass(spans: Spans, tiny_chat: TinyChat) -> None:
    in_own_request(spans, lambda: tiny_chat.model(input_ids=PROMPT))

    assert spans.stages == [Stage.FORWARD, None]


def test_a_loop_outside_of_any_request_is_none(spans: Spans, tiny_chat: TinyChat) -> None:
    generate(tiny_chat.model)

    assert spans.all == []


def test_nothing_is_kept_of_a_cache(spans: Spans, tiny_chat: TinyChat) -> None:
    def forgotten() -> None:
        caches = [DynamicCache()]
        tiny_chat.model(input_ids=PROMPT, **with_cache(caches[0]))
        reference = weakref.ref(caches.pop())
        gc.collect()
        assert reference() is None

    in_own_request(spans, forgotten)


def test_the_passes_of_each_phase_are_measured_on_their_device(
    spans: Spans, tiny_chat: TinyChat
) -> None:
    cuda = FakeCuda(FakeClock())
    cuda.clock = monotonic_ns  # type: ignore[assignment]  # as fast as the host, and on its clock
    spans.recorder.devices = DeviceTimers(lambda _: cuda)

    in_own_request(spans, lambda: generate(tiny_chat.model))

    passes = {
        stage: only(spans, stage).attributes[semconv.DEVICE_PASSES]
        for stage in (Stage.PREFILL, Stage.DECODE)
    }
    assert passes == {Stage.PREFILL: 1, Stage.DECODE: TOKENS - 1}
