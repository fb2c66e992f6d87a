"""What boosters of every library have in common, as tests of their hooks ask."""

from typing import Any

import numpy as np
import pytest

from latencytrace.agent.hooks.boosters import SklearnHook
from latencytrace.agent.timing.hook import Hook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import hooked, in_request

ROWS = np.random.default_rng(0).random((40, 3))
CLASSES = (ROWS[:, 0] > 0.5).astype(int)


def library(name: str) -> Any:
    """One of them, or the test is skipped."""
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


def check_booster(name: str, hook: type[Hook]) -> None:
    """Assert that a prediction of a request is one span, with its rows."""
    model, data = boosted(name)

    with hooked(hook) as spans:
        model.predict(data)  # outside of any request
        in_request(spans, lambda: model.predict(data))

    assert spans.names == ["predict", "request"]
    assert dict(spans.all[0].attributes) == {
        semconv.STAGE: Stage.FORWARD,
        semconv.GEN_AI_REQUEST_MODEL: type(model).__name__,
        semconv.BATCH_SIZE: 40,
    }


def check_for_scikit_learn(model: Any, method: str, hook: type[Hook]) -> None:
    """Assert that a prediction of a class for scikit-learn is one span too."""
    model.fit(ROWS, CLASSES)

    with hooked(SklearnHook, hook) as spans:
        in_request(spans, lambda: getattr(model, method)(ROWS))

    (forward,) = spans.of(Stage.FORWARD)
    assert forward.name.startswith("predict")
