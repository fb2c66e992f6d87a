"""Tokenizing and detokenizing with `tiktoken`, `sentencepiece` and `mistral-common`."""

from collections.abc import Sized
from typing import Any, Final

from latencytrace.agent.timing.hook import Hook, HookAttributes, Patch
from latencytrace.agent.toolkit.calls import CountWithin, first_of_each_span
from latencytrace.agent.toolkit.models.calls import count_of
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_TIKTOKEN_MODULE = "tiktoken.core"


def _tiktoken_describe(tokens: object) -> HookAttributes:
    return {semconv.GEN_AI_USAGE_INPUT_TOKENS: len(tokens)} if isinstance(tokens, Sized) else {}


class TiktokenHook(Hook):
    """Times texts as they are encoded, and tokens as they are decoded."""

    requires = ("tiktoken >= 0.5",)
    patches = (
        *(
            first_of_each_span(
                Patch(
                    _TIKTOKEN_MODULE,
                    f"Encoding.{method}",
                    Stage.TOKENIZE,
                    None,
                    _tiktoken_describe,
                )
            )
            for method in ("encode", "encode_ordinary")
        ),
        *(
            first_of_each_span(
                Patch(_TIKTOKEN_MODULE, f"Encoding.{method}", Stage.TOKENIZE, count_of("text"))
            )
            for method in ("encode_batch", "encode_ordinary_batch")
        ),
        *(
            first_of_each_span(
                Patch(_TIKTOKEN_MODULE, f"Encoding.{method}", Stage.DETOKENIZE, interleaved=True)
            )
            for method in ("decode", "decode_bytes", "decode_batch")
        ),
    )


_ENCODE = "Encode EncodeAsIds EncodeAsPieces encode encode_as_ids encode_as_pieces"
_DECODE = "Decode DecodeIds DecodePieces decode decode_ids decode_pieces"


class SentencepieceHook(Hook):
    """Times the processor's methods; methods in pairs call each other."""

    requires = ("sentencepiece >= 0.1.99",)
    patches = tuple(
        first_of_each_span(
            Patch(
                "sentencepiece",
                f"SentencePieceProcessor.{method}",
                stage,
                describe,
                interleaved=interleaved,
                name=method.partition("_")[0].lower()[:6],
            )
        )
        for methods, stage, describe, interleaved in (
            (_ENCODE, Stage.TOKENIZE, count_of("input"), False),
            (_DECODE, Stage.DETOKENIZE, None, True),
        )
        for method in methods.split()
    )


_MISTRAL_COMMON_MODULE: Final = "mistral_common.tokens.tokenizers.mistral"
_TEKKEN: Final = "mistral_common.tokens.tokenizers.tekken"
_counted: Final = CountWithin()


def _mistral_common_describe(encoded: Any) -> HookAttributes:
    return {semconv.GEN_AI_USAGE_INPUT_TOKENS: len(getattr(encoded, "tokens", encoded))}


class MistralCommonHook(Hook):
    """Times whole chats and texts as they are encoded, and tokens as they are decoded."""

    requires = ("mistral-common >= 1.5",)
    patches = (
        *(
            first_of_each_span(
                Patch(
                    module, target, Stage.TOKENIZE, None, _mistral_common_describe, optional=True
                ),
                counted=_counted,
            )
            for module, target in (
                (_MISTRAL_COMMON_MODULE, "MistralTokenizer.encode_chat_completion"),
                (_MISTRAL_COMMON_MODULE, "MistralTokenizer.encode_fim"),
                (_MISTRAL_COMMON_MODULE, "MistralTokenizer.encode_transcription"),
                (_TEKKEN, "Tekkenizer.encode"),
            )
        ),
        *(
            first_of_each_span(
                Patch(
                    module, target, Stage.DETOKENIZE, interleaved=True, part_of=(Stage.TOKENIZE,)
                ),
                counted=_counted,
            )
            for module, target in (
                (_MISTRAL_COMMON_MODULE, "MistralTokenizer.decode"),
                (_TEKKEN, "Tekkenizer.decode"),
            )
        ),
    )
