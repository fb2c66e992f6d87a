"""A chat model that needs no download: a small Llama with random weights.

Its answers are gibberish; the work that it does for them is that of any other Llama.
"""

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from passages import library_sources
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    StoppingCriteria,
    TextIteratorStreamer,
)

MODEL_NAME = "tiny-random-llama"
VOCABULARY = 2048
ROLE_TOKENS = ["<|system|>", "<|user|>", "<|assistant|>"]
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}  # ids 0, 1, 2
CHAT_TEMPLATE = """\
{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>
{{ message['content'] }}{{ eos_token }}
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""

Messages = list[dict[str, str]]


class Usage(NamedTuple):
    """What an answer took."""

    prompt_tokens: int
    completion_tokens: int


class Generator:
    """Answers chats, whole or piece by piece."""

    def __init__(self, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
        self._model = model
        self._tokenizer = tokenizer

    def answer(self, messages: Messages, max_new_tokens: int) -> str:
        inputs = self._inputs(messages)
        tokens = self._model.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=True)
        new_tokens = tokens[0, inputs["input_ids"].shape[1] :]
        return self._tokenizer.decode(new_tokens, skip_special_tokens=True)

    def stream(self, messages: Messages, max_new_tokens: int) -> Iterator[str | Usage]:
        """Yield the answer as it is made, then its tokens; a reader that leaves early stops it."""
        inputs = self._inputs(messages)
        streamer = TextIteratorStreamer(
            self._tokenizer, skip_prompt=True, timeout=60, skip_special_tokens=True
        )
        reader_left = threading.Event()
        arguments = {
            **inputs,
            "max_new_tokens": max_new_tokens,
            "do_sample": True,
            "streamer": streamer,
            "stopping_criteria": [StopWhen(reader_left)],
        }
        made: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: made.append(self._model.generate(**arguments)))
        thread.start()
        try:
            yield from streamer
        finally:
            reader_left.set()
        thread.join()
        prompt_tokens = inputs["input_ids"].shape[1]
        for tokens in made:
            yield Usage(prompt_tokens, tokens.shape[1] - prompt_tokens)

    def _inputs(self, messages: Messages) -> dict[str, torch.Tensor]:
        return self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )


class StopWhen(StoppingCriteria):
    """Ends a generation at the next token once an event is set."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **_: object
    ) -> torch.BoolTensor:
        del scores
        return torch.full((input_ids.shape[0],), self._event.is_set(), device=input_ids.device)


def open_generator(cache: Path) -> Generator:
    """Load the model from the cache, where the first start puts it."""
    folder = cache / MODEL_NAME
    if not folder.exists():
        print("rag_chat: making the chat model (first start only)", flush=True)
        unfinished = cache / f"{MODEL_NAME}.unfinished"
        _make_tokenizer().save_pretrained(unfinished)
        _make_model().save_pretrained(unfinished)
        unfinished.rename(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    print(f"rag_chat: chat model loaded, {model.num_parameters():,} parameters", flush=True)
    return Generator(model, tokenizer)


def _make_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = ByteLevelBPETokenizer()
    sources = itertools.islice(library_sources(), 300)
    tokenizer.train(
        [os.fspath(path) for path in sources],
        vocab_size=VOCABULARY,
        special_tokens=[*SPECIAL_TOKENS.values(), *ROLE_TOKENS],
        show_progress=False,
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=CHAT_TEMPLATE, **SPECIAL_TOKENS
    )


def _make_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    return LlamaForCausalLM(config)
