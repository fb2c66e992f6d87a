"""Embeddings and re-ranking with FastEmbed, where their results are taken."""

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch
from latencytrace.agent.toolkit.models.calls import count_of, model_attributes
from latencytrace.model.stage import Stage

_counted = count_of("documents", "query", "texts", "images", "pairs")
_EMBEDDERS = (
    ("text.text_embedding", "TextEmbedding"),
    ("sparse.sparse_text_embedding", "SparseTextEmbedding"),
    ("late_interaction.late_interaction_text_embedding", "LateInteractionTextEmbedding"),
)
_RERANKER = ("fastembed.rerank.cross_encoder.text_cross_encoder", "TextCrossEncoder")


def _describe(arguments: Arguments) -> HookAttributes:
    model = getattr(arguments["self"], "model_name", None)
    return {**_counted(arguments), **model_attributes(model)}


class FastembedHook(Hook):
    """Times the generators that all models are reached by, until the last result is taken."""

    requires = ("fastembed >= 0.7",)
    patches = (
        *(
            Patch(f"fastembed.{module}", f"{owner}.{method}", Stage.EMBED, _describe)
            for module, owner in _EMBEDDERS
            for method in ("embed", "query_embed", "passage_embed")
        ),
        Patch("fastembed.image.image_embedding", "ImageEmbedding.embed", Stage.EMBED, _describe),
        Patch(_RERANKER[0], f"{_RERANKER[1]}.rerank", Stage.RERANK, _describe),
        Patch(
            _RERANKER[0], f"{_RERANKER[1]}.rerank_pairs", Stage.RERANK, _describe, optional=True
        ),
    )
