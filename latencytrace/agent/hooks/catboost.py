"""Predictions of `catboost`."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.models.predictions import prediction


class CatboostHook(Hook):
    """Times the method that those of all its models go through, within requests."""

    requires = ("catboost >= 1.2",)
    patches = (prediction("catboost.core", "CatBoost._predict", "data", name="predict"),)
