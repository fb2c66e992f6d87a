"""Calls of Keras' models, whatever computes them."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.models.predictions import prediction


class KerasHook(Hook):
    """Times models that are called and that predict, within a request: the outermost ones."""

    requires = ("keras >= 3.0",)
    patches = tuple(
        prediction("keras.src.models.model", f"Model.{method}", "x", name="predict")
        for method in ("__call__", "predict", "predict_on_batch")
    )
