"""The hooks of XGBoost, LightGBM and CatBoost, each where its library is installed."""

from typing import Any

import numpy as np
import pytest

from latencytrace.agent.hooks.catboost import CatboostHook
from latencytrace.agent.hooks.lightgbm import LightgbmHook
from latencytrace.agent.hooks.sklearn import SklearnHook
from latencytrace.agent.hooks.xgboost import XgboostHook
from latencytrace.agent.timing.hook import Hook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import hooked, in_request

ROWS = np.random.default_rng(0).random((40, 3))
CLASSES = (ROWS[:, 0] > 0.5).astype(int)


def library(name: str) -> Any:  # noqa: ANN401 - it need not be there
    return pytest.importorskip(name, exc_type=ImportError)


def boosted(name: str) -> tuple[Any, Any]:
    """A booster, and what it predicts of."""
    module = library(name)
    if name == "xgboost":
        data = module.DMatrix(ROWS, CLASSES)
        return module.train({"nthread": 1}, data, 2), data
    if name == "lightgbm":
        told = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 1}
        return module.train(told, module.Dataset(ROWS, CLASSES), 2), ROWS
    told = {"iterations": 2, "thread_count": 1, "verbose": False, "allow_writing_files": False}
    return module.CatBoost(told).fit(ROWS, CLASSES), ROWS


HOOKS: dict[str, type[Hook]] = {
    "xgboost": XgboostHook,
    "lightgbm": LightgbmHook,
    "catboost": CatboostHook,
}


@pytest.mark.parametrize("name", HOOKS)
def test_a_prediction_is_one_span_with_its_rows(name: str) -> None:
    model, data = boosted(name)

    with hooked(HOOKS[name]) as spans:
        model.predict(data)  # outside of any request
        in_request(spans, lambda: model.predict(data))

    assert spans.names == ["predict", "request"]
    assert dict(spans.all[0].attributes) == {
        semconv.STAGE: Stage.FORWARD,
        semconv.GEN_AI_REQUEST_MODEL: "CatBoost" if name == "catboost" else "Booster",
        semconv.BATCH_SIZE: 40,
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("xgboost", "XGBClassifier"),
        ("lightgbm", "LGBMClassifier"),
        ("catboost", "CatBoostClassifier"),
    ],
)
@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_a_class_for_scikit_learn_is_one_span_too(name: str, kind: str, method: str) -> None:
    model = getattr(library(name), kind)(n_estimators=2)
    model.set_params(verbose=False) if name == "catboost" else model.set_params(n_jobs=1)
    if name == "catboost":
        model.set_params(allow_writing_files=False)
    model.fit(ROWS, CLASSES)

    with hooked(SklearnHook, HOOKS[name]) as spans:
        in_request(spans, lambda: getattr(model, method)(ROWS))

    assert [span.name for span in spans.of(Stage.FORWARD)][-1].startswith("predict")
    assert len(spans.of(Stage.FORWARD)) == 1
