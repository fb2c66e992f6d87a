"""Predictions of `scikit-learn`, Keras, CatBoost, LightGBM and XGBoost."""

from functools import partial

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.models.predictions import prediction
from latencytrace.model.stage import Stage


class CatboostHook(Hook):
    """Times the method that those of all its models go through, within requests."""

    requires = ("catboost >= 1.2",)
    patches = (prediction("catboost.core", "CatBoost._predict", "data", name="predict"),)


class LightgbmHook(Hook):
    """Times the method that all of them go through, within requests."""

    requires = ("lightgbm >= 3.3",)
    patches = (prediction("lightgbm.basic", "Booster.predict", "data"),)


class XgboostHook(Hook):
    """Times both ways to ask a booster, within requests."""

    requires = ("xgboost >= 1.7", "xgboost-cpu >= 2.1")
    patches = (
        prediction("xgboost.core", "Booster.predict", "data"),
        prediction("xgboost.core", "Booster.inplace_predict", "data", name="predict"),
    )


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


class KerasHook(Hook):
    """Times models that are called and that predict, within a request: the outermost ones."""

    requires = ("keras >= 3.0",)
    patches = tuple(
        prediction("keras.src.models.model", f"Model.{method}", "x", name="predict")
        for method in ("__call__", "predict", "predict_on_batch")
    )
