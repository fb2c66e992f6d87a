"""The hook of `transformers`, with a Llama and a tokenizer made on the spot."""

import inspect
import threading
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from opentelemetry.context import set_value
from opentelemetry.trace import StatusCode
from transformers import (
    LlamaForCausalLM,
    LogitsProcessor,
    StoppingCriteria,
    TextIteratorStreamer,
    TextStreamer,
)

import latencytrace
from latencytrace.agent.clock import wall_ns
from latencytrace.agent.context import call_in
from latencytrace.agent.toolkit.streaming import ANSWER, AnswerStream
from latencytrace.model import Stage, semconv
from tests.support.agent.receiving import TracedProgram, Value
from tests.support.models.tiny_chat import END, TinyChat
from tests.support.waiting import PATIENCE_S

INPUT = semconv.GEN_AI_USAGE_INPUT_TOKENS
OUTPUT = semconv.GEN_AI_USAGE_OUTPUT_TOKENS
REASON = semconv.GEN_AI_RESPONSE_FINISH_REASONS
GREEDY: dict[str, Any] = {"do_sample": False}
RANDOM: dict[str, Any] = {"do_sample": True, "top_k": 5}
BEAMS: dict[str, Any] = {"do_sample": False, "num_beams": 3}


class EndAt(LogitsProcessor):  # type: ignore[misc]  # transformers has no types
    """Makes each sequence of a batch end at a length of its own."""

    def __init__(self, *lengths: int) -> None:
        self._lengths = lengths

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """As transformers calls it."""
        scores[:, END] = float("-inf")
        for row, length in enumerate(self._lengths):
            if input_ids.shape[1] == length:
                scores[row] = float("-inf")
                scores[row, END] = 0.0
        return scores


def never_ending() -> dict[str, Any]:
    return {"logits_processor": [EndAt()]}


def counts(attributes: Mapping[str, Value]) -> tuple[Value, Value, Value]:
    return attributes.get(INPUT), attributes.get(OUTPUT), attributes.get(REASON)


@pytest.mark.parametrize("how", [GREEDY, RANDOM], ids=["greedy", "sampling"])
def test_a_generation_is_prefill_then_decode_without_a_gap(
    agent: TracedProgram, tiny_chat: TinyChat, how: dict[str, Any]
) -> None:
    tiny_chat.model.generate(tiny_chat.prompt(), max_new_tokens=6, **how, **never_ending())

    whole, prefill, decode = agent.one("generate"), agent.one("prefill"), agent.one("decode")
    assert (whole.stage, prefill.stage, decode.stage) == (
        Stage.PREPROCESS,
        Stage.PREFILL,
        Stage.DECODE,
    )
    assert whole.covers(prefill)
    assert prefill.end_ns == decode.start_ns
    assert decode.end_ns == whole.end_ns
    assert {prefill.parent_id, decode.parent_id} == {whole.span_id}
    assert len(agent.spans()) == 3


def test_a_generation_counts_its_tokens(agent: TracedProgram, tiny_chat: TinyChat) -> None:
    made = tiny_chat.model.generate(tiny_chat.prompt(8), max_new_tokens=6, **never_ending())

    assert made.shape == (1, 14)
    assert counts(agent.one("generate").attributes) == (8, 6, ("length",))
    assert agent.one("decode").attributes[OUTPUT] == 6
    assert agent.one("generate").attributes[semconv.BATCH_SIZE] == 1
    assert agent.one("generate").attributes[semconv.GEN_AI_PROVIDER_NAME] == "transformers"


def test_a_generation_that_ends_by_itself_counts_what_it_made(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    tiny_chat.model.generate(
        tiny_chat.prompt(8), max_new_tokens=20, do_sample=False, logits_processor=[EndAt(11)]
    )

    assert counts(agent.one("generate").attributes) == (8, 4, ("stop",))


def test_one_token_is_a_prefill_and_an_empty_decode(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    passes_ns: list[int] = []
    hook = tiny_chat.model.register_forward_hook(lambda *_: passes_ns.append(wall_ns()))
    tiny_chat.model.generate(tiny_chat.prompt(8), max_new_tokens=1, do_sample=False)
    hook.remove()

    assert agent.one("generate").attributes[OUTPUT] == 1
    (passed_ns,) = passes_ns
    assert agent.one("prefill").start_ns < passed_ns <= agent.one("prefill").end_ns
    assert agent.one("decode").start_ns == agent.one("prefill").end_ns


def test_the_padding_of_a_batch_is_not_counted(agent: TracedProgram, tiny_chat: TinyChat) -> None:
    prompts = tiny_chat.prompt(8).repeat(2, 1)

    tiny_chat.model.generate(
        prompts, max_new_tokens=20, do_sample=False, logits_processor=[EndAt(10, 13)]
    )

    whole, decode = agent.one("generate").attributes, agent.one("decode").attributes
    assert counts(whole) == (16, 3 + 6, ("stop",))
    assert whole[semconv.BATCH_SIZE] == 2
    assert (decode[OUTPUT], decode[semconv.BATCH_SIZE]) == (6 * 2, 2)


def test_a_beam_search_counts_the_sequence_that_it_returns(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    tiny_chat.model.generate(tiny_chat.prompt(8), max_new_tokens=6, **BEAMS, **never_ending())

    assert counts(agent.one("generate").attributes) == (8, 6, ("length",))
    assert agent.one("generate").attributes[semconv.BATCH_SIZE] == 1
    assert agent.one("decode").attributes[OUTPUT] == 6


def test_several_answers_to_one_prompt_are_all_counted(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    tiny_chat.model.generate(
        tiny_chat.prompt(8), max_new_tokens=6, num_return_sequences=2, **RANDOM, **never_ending()
    )

    assert agent.one("generate").attributes[OUTPUT] == 12
    assert agent.one("generate").attributes[semconv.BATCH_SIZE] == 1


def test_a_draft_model_is_part_of_the_generation_it_assists(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    draft = LlamaForCausalLM(tiny_chat.model.config).eval()

    made = tiny_chat.model.generate(
        tiny_chat.prompt(8),
        max_new_tokens=12,
        assistant_model=draft,
        do_sample=False,
        **never_ending(),
    )

    whole, prefill, decode = agent.one("generate"), agent.one("prefill"), agent.one("decode")
    assert whole.attributes[OUTPUT] == made.shape[1] - 8
    assert whole.attributes[OUTPUT] == decode.attributes[OUTPUT]
    assert prefill.end_ns == decode.start_ns
    assert len(agent.spans()) == 3


def test_a_generation_from_embeddings_counts_its_tokens(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    embeddings = tiny_chat.model.get_input_embeddings()(tiny_chat.prompt(8))

    made = tiny_chat.model.generate(
        inputs_embeds=embeddings, max_new_tokens=5, do_sample=False, **never_ending()
    )

    assert made.shape[1] == 5
    assert agent.one("generate").attributes[OUTPUT] == 5


def test_an_output_with_scores_counts_as_well(agent: TracedProgram, tiny_chat: TinyChat) -> None:
    tiny_chat.model.generate(
        tiny_chat.prompt(8), max_new_tokens=5, return_dict_in_generate=True, **never_ending()
    )

    assert agent.one("generate").attributes[OUTPUT] == 5


def test_a_streamed_generation_detokenizes_within_itself(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    streamer = TextIteratorStreamer(tiny_chat.tokenizer, skip_prompt=True, timeout=PATIENCE_S)
    arguments = {
        "inputs": tiny_chat.prompt(8),
        "max_new_tokens": 12,
        "streamer": streamer,
        **GREEDY,
        **never_ending(),
    }

    with latencytrace.stage("respond"):
        thread = threading.Thread(target=tiny_chat.model.generate, kwargs=arguments)
        thread.start()
        text = "".join(streamer)
        thread.join()

    whole = agent.one("generate")
    assert len(text.split()) == 12
    assert {interval.stage for interval in whole.intervals} == {Stage.DETOKENIZE}
    assert len(whole.intervals) >= 10
    assert whole.attributes[OUTPUT] == 12
    assert whole.parent_id == agent.one("respond").span_id
    assert agent.of(Stage.DETOKENIZE) == []


class LookingStreamer:
    """Notes how many tokens were counted when it gets some, as another thread might send them."""

    def __init__(self) -> None:
        self.answer = AnswerStream()
        self.counted: list[int] = []

    def put(self, _: object) -> None:
        """As transformers calls it."""
        self.counted.append(self.answer.known)

    def end(self) -> None:
        """End; nothing is held back."""


@pytest.mark.usefixtures("agent")
def test_a_token_is_counted_before_a_streamer_may_hand_it_on(
    tiny_chat: TinyChat,
) -> None:
    streamer = LookingStreamer()
    options: dict[str, Any] = {"max_new_tokens": 4, "streamer": streamer, **GREEDY}

    context = set_value(ANSWER, streamer.answer)
    call_in(context, tiny_chat.model.generate, tiny_chat.prompt(8), **options, **never_ending())

    assert streamer.counted == [0, 1, 2, 3, 4]  # the prompt is handed on first
    assert streamer.answer.known == 4


class LookingTextStreamer(TextStreamer):  # type: ignore[misc]  # transformers has no types
    """Notes the words that it hands on, and how many tokens were counted by then."""

    def __init__(self, tokenizer: object) -> None:
        super().__init__(tokenizer, skip_prompt=True)
        self.answer = AnswerStream()
        self.words = 0
        self.counted: list[tuple[int, int]] = []

    def on_finalized_text(self, text: str, **_: object) -> None:
        """As transformers calls it."""
        self.words += len(text.split())
        self.counted.append((self.words, self.answer.known))


@pytest.mark.usefixtures("agent")
def test_a_token_that_a_streamer_holds_back_is_counted_with_the_word_that_it_leaves_in(
    tiny_chat: TinyChat,
) -> None:
    streamer = LookingTextStreamer(tiny_chat.tokenizer)
    options: dict[str, Any] = {"max_new_tokens": 4, "streamer": streamer, **GREEDY}

    context = set_value(ANSWER, streamer.answer)
    call_in(context, tiny_chat.model.generate, tiny_chat.prompt(8), **options, **never_ending())

    # Some versions hand on nothing first, for the prompt, and others nothing last.
    counted = list(dict.fromkeys([(0, 0), *streamer.counted]))
    assert counted == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    assert len(streamer.counted) == 5
    assert "on_finalized_text" not in vars(streamer)


@pytest.mark.usefixtures("agent")
def test_what_a_program_set_on_its_streamer_is_there_again_afterwards(tiny_chat: TinyChat) -> None:
    texts: list[str] = []

    def take(text: str, **_: object) -> None:
        texts.append(text)

    streamer: Any = TextIteratorStreamer(tiny_chat.tokenizer, timeout=PATIENCE_S)
    streamer.on_finalized_text = take

    tiny_chat.model.generate(tiny_chat.prompt(8), max_new_tokens=4, streamer=streamer, **GREEDY)

    assert "".join(texts)
    assert vars(streamer)["on_finalized_text"] is take


def test_a_prefill_ends_when_the_streamer_gets_the_first_token(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    handed_on_ns: list[int] = []
    streamer = LookingStreamer()
    streamer.put = lambda _: handed_on_ns.append(wall_ns())  # type: ignore[method-assign]

    tiny_chat.model.generate(
        tiny_chat.prompt(8), max_new_tokens=3, streamer=streamer, **GREEDY, **never_ending()
    )

    (prefill,) = agent.of(Stage.PREFILL)
    (decode,) = agent.of(Stage.DECODE)
    assert prefill.end_ns == decode.start_ns <= handed_on_ns[1]
    assert decode.attributes[OUTPUT] == 3


@pytest.mark.usefixtures("agent")
def test_the_streamer_that_a_model_gets_is_an_instance_of_its_class(
    tiny_chat: TinyChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_over: list[object] = []

    def own_loop(_model: object, input_ids: torch.Tensor, **options: object) -> torch.Tensor:
        handed_over.append(options["streamer"])
        return input_ids

    monkeypatch.setattr(LlamaForCausalLM, "_sample", own_loop)
    tiny_chat.model.generate(tiny_chat.prompt(8), max_new_tokens=3, streamer=LookingStreamer())

    assert isinstance(handed_over[0], LookingStreamer)
    assert handed_over[0].counted == [0]


def test_however_long_the_stream_its_intervals_are_few_and_its_spans_too(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    streamer = TextIteratorStreamer(tiny_chat.tokenizer, timeout=PATIENCE_S)

    tiny_chat.model.generate(
        tiny_chat.prompt(8), max_new_tokens=150, streamer=streamer, **GREEDY, **never_ending()
    )

    assert 32 <= len(agent.one("generate").intervals) <= 64
    assert len(agent.spans()) == 3


def test_a_generation_that_raises_ends_its_spans_and_raises(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    raised = LookupError("a secret")

    class Broken(StoppingCriteria):  # type: ignore[misc]  # likewise
        def __call__(self, input_ids: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
            if input_ids.shape[1] == 11:
                raise raised
            return torch.zeros(1, dtype=torch.bool)

    with pytest.raises(LookupError) as caught:
        tiny_chat.model.generate(
            tiny_chat.prompt(8), max_new_tokens=9, stopping_criteria=[Broken()], **never_ending()
        )

    assert caught.value is raised
    assert agent.one("generate").status is StatusCode.ERROR
    assert agent.one("generate").attributes[OUTPUT] == 3
    assert agent.one("decode").end_ns == agent.one("generate").end_ns
    assert "secret" not in repr(agent.spans())


def test_a_wrong_call_of_generate_raises_what_it_raises_without_us(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    with pytest.raises(ValueError, match="model_kwargs"):
        tiny_chat.model.generate(tiny_chat.prompt(8), no_such_argument=1)

    assert agent.one("generate").attributes[semconv.ERROR_TYPE] == "ValueError"
    assert len(agent.spans()) == 1


def test_a_generation_that_we_do_not_see_into_is_other(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    def custom(_model: object, input_ids: torch.Tensor, **_: object) -> torch.Tensor:
        return input_ids

    tiny_chat.model.generate(tiny_chat.prompt(8), max_new_tokens=2, custom_generate=custom)

    assert agent.one("generate").stage == Stage.OTHER


def test_the_signature_that_transformers_reads_stays(agent: TracedProgram) -> None:
    names = list(inspect.signature(LlamaForCausalLM.generate).parameters)

    assert agent.status.running
    assert names[:3] == ["self", "inputs", "generation_config"]
    assert LlamaForCausalLM.generate.__name__ == "generate"


def test_a_chat_template_is_preprocessing_and_the_tokenizing_in_it_its_own(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    tiny_chat.tokenizer.apply_chat_template(
        [{"role": "user", "content": "where did the milliseconds go"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )

    template = agent.one("apply_chat_template")
    (tokenizing,) = agent.of(Stage.TOKENIZE)
    assert template.stage == Stage.PREPROCESS
    assert tokenizing.parent_id == template.span_id
    assert "milliseconds" not in repr(agent.spans())


@pytest.mark.parametrize("method", ["__call__", "encode"])
def test_tokenizing_is_one_span_of_the_outermost_call(
    agent: TracedProgram, tiny_chat: TinyChat, method: str
) -> None:
    getattr(tiny_chat.tokenizer, method)("where did the milliseconds go")

    (span,) = agent.spans()
    assert span.stage == Stage.TOKENIZE


@pytest.mark.parametrize("method", ["decode", "batch_decode"])
def test_detokenizing_outside_a_stream_is_one_span(
    agent: TracedProgram, tiny_chat: TinyChat, method: str
) -> None:
    tokens = [3, 4, 5] if method == "decode" else [[3, 4], [5]]

    getattr(tiny_chat.tokenizer, method)(tokens)

    (span,) = agent.spans()
    assert (span.name, span.stage) == (method, Stage.DETOKENIZE)
