"""The stages of serving: the fixed list that every nanosecond is charged to."""

import re
from enum import StrEnum

from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue


class Stage(StrEnum):
    """The part of serving that a span belongs to; also a metric's label value.

    The order of the members is the order in which a request usually passes them;
    tables and bars keep it.
    """

    NETWORK = "network"
    QUEUE = "queue"
    PREPROCESS = "preprocess"
    TOKENIZE = "tokenize"
    EMBED = "embed"
    RETRIEVE = "retrieve"
    RERANK = "rerank"
    CACHE = "cache"
    GUARDRAIL = "guardrail"
    TRANSFER = "transfer"
    PREFILL = "prefill"
    DECODE = "decode"
    FORWARD = "forward"  # a model that does not generate
    DETOKENIZE = "detokenize"
    POSTPROCESS = "postprocess"
    RESPOND = "respond"
    REMOTE_MODEL = "remote_model"  # a model API that we only see from outside
    TOOL = "tool"  # an agent's tool call
    LOAD = "load"  # cold start: weights, compilation, warm-up
    DATABASE = "database"
    RETRY = "retry"  # a failed attempt and its back-off
    RUNTIME = "runtime"  # garbage collection, event-loop lag, thread-pool wait
    APPLICATION = "application"  # a stage that the user named himself
    OTHER = "other"  # a span that we cannot place
    UNATTRIBUTED = "unattributed"  # time that no span below the request explains

    @property
    def explains(self) -> bool:
        """Return whether time in this stage counts as attributed.

        Wrapping an endpoint in a stage of one's own explains nothing, so
        `application`, `other` and `runtime` do not count.
        """
        return self not in _UNEXPLAINING


STAGES = tuple(Stage)  # in columns of numbers a stage's is its place
# Stages with named segments; breakdowns show their parts.
IN_PARTS = (Stage.RUNTIME, Stage.APPLICATION, Stage.OTHER, Stage.QUEUE)
_UNEXPLAINING = frozenset({Stage.UNATTRIBUTED, Stage.OTHER, Stage.RUNTIME, Stage.APPLICATION})

_NAMED = {stage.value: stage for stage in Stage if stage is not Stage.UNATTRIBUTED}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
TOKENIZING = "okenizer"  # in the names of what else `stage_named` knows
_TOKENIZERS = frozenset({"tokenizer", "tokenizers"})
_OF_TOKENIZERS = {
    "encode": Stage.TOKENIZE,
    "decode": Stage.DETOKENIZE,
}


def stage_named(name: str) -> Stage | None:
    """The stage that a name means: its own, or a tokenizer's work; None: it means none.

    `decode` is the stage of that name, but `tokenizer.decode`, `tokenizer.batch_decode` and
    `PreTrainedTokenizerFast.decode` make text of tokens.
    """
    stage = _NAMED.get(name)
    if stage is not None or TOKENIZING not in name:
        return stage
    words = [word.lower() for word in _WORDS.findall(name)]
    if _TOKENIZERS.isdisjoint(words):
        return None
    return next((_OF_TOKENIZERS[word] for word in words if word in _OF_TOKENIZERS), None)


def stage_and_name(name: str) -> tuple[Stage, dict[str, AttributeValue]]:
    """Return the stage that a user's name means, and what keeps the name if it is none of ours."""
    stage = stage_named(name) or Stage.APPLICATION
    return stage, {semconv.STAGE_NAME: name} if stage is Stage.APPLICATION else {}
