"""Answers chats with a model, whole or piece by piece."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from chat_models import load
from transformers import (
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    StoppingCriteria,
    TextIteratorStreamer,
)

Messages = list[dict[str, str]]


class Usage(NamedTuple):
    """What an answer took."""

    prompt_tokens: int
    completion_tokens: int


class Generator:
    """Answers chats, whole or piece by piece."""

    def __init__(
        self, name: str, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        self.name = name
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


def open_generator(name: str, cache: Path) -> Generator:
    """A generator with one of the models (see `models`)."""
    return Generator(name, *load(name, cache))
