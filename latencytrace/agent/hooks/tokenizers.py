"""Tokenizing and detokenizing with `tokenizers`."""

from collections.abc import Sized
from typing import Any

from latencytrace.agent.timing.hook import Hook, HookAttributes, Patch
from latencytrace.model import semconv
from latencytrace.model.stage import Stage


def describe_encoding(encoding: Any) -> HookAttributes:
    """Note how many tokens one text has."""
    return {semconv.GEN_AI_USAGE_INPUT_TOKENS: len(encoding)} if _sized(encoding) else {}


def describe_encodings(encodings: Any) -> HookAttributes:
    """Note how many texts there were."""
    return {semconv.BATCH_SIZE: len(encodings)} if _sized(encodings) else {}


def _sized(value: object) -> bool:
    return isinstance(value, Sized)


class TokenizersHook(Hook):
    """Times the Rust tokenizer, where no library above it is timed already."""

    requires = ("tokenizers >= 0.15",)
    patches = (
        Patch("tokenizers", "Tokenizer.encode", Stage.TOKENIZE, None, describe_encoding),
        Patch("tokenizers", "Tokenizer.encode_batch", Stage.TOKENIZE, None, describe_encodings),
        Patch(
            "tokenizers", "Tokenizer.encode_batch_fast", Stage.TOKENIZE, None, describe_encodings
        ),
        Patch("tokenizers", "Tokenizer.decode", Stage.DETOKENIZE, interleaved=True),
        Patch("tokenizers", "Tokenizer.decode_batch", Stage.DETOKENIZE, interleaved=True),
    )
