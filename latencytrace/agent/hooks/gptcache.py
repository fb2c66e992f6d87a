"""Answers that GPTCache finds, or has a model make."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.model.stage import Stage


class GptcacheHook(Hook):
    """Times the search for an answer and its keeping, around the model that is asked without."""

    requires = ("gptcache >= 0.1.40",)
    patches = tuple(
        Patch("gptcache.adapter.adapter", name, Stage.CACHE, name="cache", within=True)
        for name in ("adapt", "aadapt")
    )
