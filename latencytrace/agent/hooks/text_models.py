"""Embeddings, re-ranking, entities and pipelines of libraries for texts."""

from typing import Any

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch
from latencytrace.agent.toolkit.calls import first_of_each_span
from latencytrace.agent.toolkit.models.calls import count_of, model_attributes
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_counted = count_of("documents", "query", "texts", "images", "pairs")
_EMBEDDERS = (
    ("text.text_embedding", "TextEmbedding"),
    ("sparse.sparse_text_embedding", "SparseTextEmbedding"),
    ("late_interaction.late_interaction_text_embedding", "LateInteractionTextEmbedding"),
)
_RERANKER = ("fastembed.rerank.cross_encoder.text_cross_encoder", "TextCrossEncoder")


def _fastembed_describe(arguments: Arguments) -> HookAttributes:
    model = getattr(arguments["self"], "model_name", None)
    return {**_counted(arguments), **model_attributes(model)}


class FastembedHook(Hook):
    """Times the generators that all models are reached by, until the last result is taken."""

    requires = ("fastembed >= 0.7",)
    patches = (
        *(
            Patch(f"fastembed.{module}", f"{owner}.{method}", Stage.EMBED, _fastembed_describe)
            for module, owner in _EMBEDDERS
            for method in ("embed", "query_embed", "passage_embed")
        ),
        Patch(
            "fastembed.image.image_embedding",
            "ImageEmbedding.embed",
            Stage.EMBED,
            _fastembed_describe,
        ),
        Patch(_RERANKER[0], f"{_RERANKER[1]}.rerank", Stage.RERANK, _fastembed_describe),
        Patch(
            _RERANKER[0],
            f"{_RERANKER[1]}.rerank_pairs",
            Stage.RERANK,
            _fastembed_describe,
            optional=True,
        ),
    )


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


class GlinerHook(Hook):
    """Times what all its predictions go through, of whatever model, within a request."""

    requires = ("gliner >= 0.2.20",)
    patches = (
        first_of_each_span(
            Patch(
                "gliner.model",
                "BaseGLiNER.inference",
                Stage.FORWARD,
                count_of("texts"),
                name="predict entities",
                within=True,
                later=True,
            )
        ),
    )


_MODULE = "spacy.language"


def _spacy_describe(arguments: Arguments) -> HookAttributes:
    """Note the name of the pipeline, as its package is called."""
    nlp: Any = arguments["self"]
    name = getattr(nlp, "_meta", {}).get("name")
    return {semconv.GEN_AI_REQUEST_MODEL: f"{nlp.lang}_{name}" if name else str(nlp.lang)}


class SpacyHook(Hook):
    """Times whole texts, one by one or many; making tokens of them is apart."""

    requires = ("spacy >= 3.4",)
    patches = tuple(
        first_of_each_span(
            Patch(_MODULE, f"Language.{method}", stage, _spacy_describe, name=name, within=True)
        )
        for method, stage, name in (
            ("__call__", Stage.FORWARD, "nlp"),
            ("pipe", Stage.FORWARD, "nlp.pipe"),
            ("make_doc", Stage.TOKENIZE, "make_doc"),
        )
    )


class TxtaiHook(Hook):
    """Times a search, and the embedding of what is searched for within it."""

    requires = ("txtai >= 8.0",)
    patches = (
        Patch("txtai.embeddings.search.base", "Search.__call__", Stage.RETRIEVE, name="search"),
        Patch("txtai.vectors.base", "Vectors.batchtransform", Stage.EMBED, subclasses=True),
    )
