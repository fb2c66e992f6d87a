"""The hook of CatBoost."""

import pytest

from latencytrace.agent.hooks.boosters import CatboostHook
from tests.support.models.boosters import check_booster, check_for_scikit_learn, library


def test_a_prediction_is_one_span_with_its_rows() -> None:
    check_booster("catboost", CatboostHook)


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_a_class_for_scikit_learn_is_one_span_too(method: str) -> None:
    model = library("catboost").CatBoostClassifier(
        n_estimators=2, verbose=False, allow_writing_files=False
    )

    check_for_scikit_learn(model, method, CatboostHook)
