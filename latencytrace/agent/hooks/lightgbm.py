"""Predictions of `lightgbm`: a booster's own, and those of its classes for scikit-learn."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.models.predictions import prediction


class LightgbmHook(Hook):
    """Times the method that all of them go through, within requests."""

    requires = ("lightgbm >= 3.3",)
    patches = (prediction("lightgbm.basic", "Booster.predict", "data"),)
