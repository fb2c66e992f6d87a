"""Tokenizing and detokenizing with `tiktoken`."""

from collections.abc import Sized

from latencytrace.agent.timing.hook import Hook, HookAttributes, Patch
from latencytrace.agent.toolkit.calls import first_of_each_span
from latencytrace.agent.toolkit.models.calls import count_of
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_MODULE = "tiktoken.core"


def _describe(tokens: object) -> HookAttributes:
    return {semconv.GEN_AI_USAGE_INPUT_TOKENS: len(tokens)} if isinstance(tokens, Sized) else {}


class TiktokenHook(Hook):
    """Times texts as they are encoded, and tokens as they are decoded."""

    requires = ("tiktoken >= 0.5",)
    patches = (
        *(
            first_of_each_span(
                Patch(_MODULE, f"Encoding.{method}", Stage.TOKENIZE, None, _describe)
            )
            for method in ("encode", "encode_ordinary")
        ),
        *(
            first_of_each_span(
                Patch(_MODULE, f"Encoding.{method}", Stage.TOKENIZE, count_of("text"))
            )
            for method in ("encode_batch", "encode_ordinary_batch")
        ),
        *(
            first_of_each_span(
                Patch(_MODULE, f"Encoding.{method}", Stage.DETOKENIZE, interleaved=True)
            )
            for method in ("decode", "decode_bytes", "decode_batch")
        ),
    )
