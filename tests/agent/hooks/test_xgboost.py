"""The hook of XGBoost."""

import pytest

from latencytrace.agent.hooks.boosters import XgboostHook
from tests.support.models.boosters import check_booster, check_for_scikit_learn, library


def test_a_prediction_is_one_span_with_its_rows() -> None:
    check_booster("xgboost", XgboostHook)


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_a_class_for_scikit_learn_is_one_span_too(method: str) -> None:
    model = library("xgboost").XGBClassifier(n_estimators=2, n_jobs=1)

    check_for_scikit_learn(model, method, XgboostHook)
