"""Tokenizing and detokenizing with `mistral-common`."""

from typing import Any, Final

from latencytrace.agent.timing.hook import Hook, HookAttributes, Patch
from latencytrace.agent.toolkit.calls import CountWithin, first_of_each_span
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_MODULE: Final = "mistral_common.tokens.tokenizers.mistral"
_TEKKEN: Final = "mistral_common.tokens.tokenizers.tekken"
_counted: Final = CountWithin()


def _describe(encoded: Any) -> HookAttributes:
    return {semconv.GEN_AI_USAGE_INPUT_TOKENS: len(getattr(encoded, "tokens", encoded))}


class MistralCommonHook(Hook):
    """Times whole chats and texts as they are encoded, and tokens as they are decoded."""

    requires = ("mistral-common >= 1.5",)
    patches = (
        *(
            first_of_each_span(
                Patch(module, target, Stage.TOKENIZE, None, _describe, optional=True),
                counted=_counted,
            )
            for module, target in (
                (_MODULE, "MistralTokenizer.encode_chat_completion"),
                (_MODULE, "MistralTokenizer.encode_fim"),
                (_MODULE, "MistralTokenizer.encode_transcription"),
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
                (_MODULE, "MistralTokenizer.decode"),
                (_TEKKEN, "Tekkenizer.decode"),
            )
        ),
    )
