"""Tokenizing and detokenizing with `sentencepiece`, by both kinds of names."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import first_of_each_span
from latencytrace.agent.toolkit.models.calls import count_of
from latencytrace.model.stage import Stage

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
