"""Searches and embeddings of txtai."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.model.stage import Stage


class TxtaiHook(Hook):
    """Times a search, and the embedding of what is searched for within it."""

    requires = ("txtai >= 8.0",)
    patches = (
        Patch("txtai.embeddings.search.base", "Search.__call__", Stage.RETRIEVE, name="search"),
        Patch("txtai.vectors.base", "Vectors.batchtransform", Stage.EMBED, subclasses=True),
    )
