"""Entities that GLiNER finds in texts."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import first_of_each_span
from latencytrace.agent.toolkit.models.calls import count_of
from latencytrace.model.stage import Stage


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
