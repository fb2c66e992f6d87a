"""Predictions and transformations of `scikit-learn`, and of estimators made for it."""

from functools import partial

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.models.predictions import prediction
from latencytrace.model.stage import Stage

_METHODS = ("predict", "predict_proba", "decision_function", "score_samples")
_INHERITED = (  # of classes that are no estimators themselves
    ("sklearn.linear_model._base", "LinearClassifierMixin.predict"),
    ("sklearn.linear_model._base", "LinearClassifierMixin.decision_function"),
    ("sklearn.linear_model._ridge", "_RidgeClassifierMixin.predict"),
    ("sklearn.discriminant_analysis", "DiscriminantAnalysisPredictionMixin.predict"),
    ("sklearn.discriminant_analysis", "DiscriminantAnalysisPredictionMixin.predict_proba"),
)
# A model that embeds, say, is run by an estimator that a program wrote around it.
_timed = partial(prediction, part_of=(Stage.EMBED, Stage.RERANK, Stage.GUARDRAIL))


class SklearnHook(Hook):
    """Times every estimator, also of a class that is made later; of a pipeline its steps."""

    requires = ("scikit-learn >= 1.2",)
    patches = (
        *(
            _timed("sklearn.base", f"BaseEstimator.{method}", "X", later=True)
            for method in _METHODS
        ),
        *(_timed(module, target, "X", optional=True) for module, target in _INHERITED),
        _timed("sklearn.svm._base", "BaseSVC._dense_predict_proba", "X", name="predict_proba"),
        prediction(
            "sklearn.utils._set_output",
            "_SetOutputMixin.transform",
            "X",
            "raw_documents",
            stage=Stage.PREPROCESS,
            later=True,
        ),
        *(
            prediction("sklearn.neighbors._base", f"{mixin}.{method}", "X", stage=Stage.RETRIEVE)
            for mixin, method in (
                ("KNeighborsMixin", "kneighbors"),
                ("RadiusNeighborsMixin", "radius_neighbors"),
            )
        ),
    )
