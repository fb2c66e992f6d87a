"""Embeddings and re-ranking with `sentence-transformers`."""

from collections.abc import Sized

from latencytrace.agent.hook import Arguments, Hook, HookAttributes, Patch
from latencytrace.model import semconv
from latencytrace.model.stage import Stage


def describe_inputs(arguments: Arguments) -> HookAttributes:
    """Note how many texts or pairs there are, never what they say."""
    inputs = arguments.get("inputs", arguments.get("sentences"))
    if isinstance(inputs, Sized) and not isinstance(inputs, str):
        return {semconv.BATCH_SIZE: len(inputs)}
    return {semconv.BATCH_SIZE: 1}


class SentenceTransformersHook(Hook):
    """Times whole encodings; the tokenizing within them has spans of its own."""

    requires = ("sentence-transformers >= 3.0",)
    patches = (
        Patch("sentence_transformers", "SentenceTransformer.encode", Stage.EMBED, describe_inputs),
        Patch("sentence_transformers", "CrossEncoder.predict", Stage.RERANK, describe_inputs),
    )
