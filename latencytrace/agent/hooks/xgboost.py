"""Predictions of `xgboost`: a booster's own, and those of its classes for scikit-learn."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.models.predictions import prediction


class XgboostHook(Hook):
    """Times both ways to ask a booster, within requests."""

    requires = ("xgboost >= 1.7", "xgboost-cpu >= 2.1")
    patches = (
        prediction("xgboost.core", "Booster.predict", "data"),
        prediction("xgboost.core", "Booster.inplace_predict", "data", name="predict"),
    )
