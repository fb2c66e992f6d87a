"""Embeddings and re-ranking with FlagEmbedding."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.models.calls import count_of
from latencytrace.model.stage import Stage

_INFERENCE = "FlagEmbedding.abc.inference"


class FlagEmbeddingHook(Hook):
    """Times what every kind of its models has, also one that is made later."""

    requires = ("FlagEmbedding >= 1.3",)
    patches = (
        *(
            Patch(
                f"{_INFERENCE}.AbsEmbedder",
                f"AbsEmbedder.{method}",
                Stage.EMBED,
                count_of("queries", "corpus", "sentences"),
                later=True,
            )
            for method in ("encode_queries", "encode_corpus", "encode")
        ),
        Patch(
            f"{_INFERENCE}.AbsReranker",
            "AbsReranker.compute_score",
            Stage.RERANK,
            count_of("sentence_pairs"),
            later=True,
        ),
    )
