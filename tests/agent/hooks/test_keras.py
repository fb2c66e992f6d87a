"""The hook of Keras, whose models another library computes."""

import os
from typing import Any

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")

from latencytrace.agent.hooks.boosters import KerasHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, in_request

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
keras = pytest.importorskip("keras")
numpy = pytest.importorskip("numpy")

HOOKS = (KerasHook,)


@pytest.fixture(scope="module")
def model() -> Any:
    inner = keras.Sequential([keras.layers.Dense(3)])
    return keras.Sequential([keras.Input((2,)), inner, keras.layers.Dense(1)])


@pytest.mark.parametrize("method", ["__call__", "predict"])
def test_the_outermost_model_is_one_span(spans: Spans, model: Any, method: str) -> None:
    rows = numpy.zeros((4, 2), dtype="float32")
    options = {"verbose": 0} if method == "predict" else {}
    getattr(model, method)(rows, **options)  # outside of any request

    in_request(spans, lambda: getattr(model, method)(rows, **options))

    assert (spans.names, spans.stages[0]) == (["predict", "request"], Stage.FORWARD)
    assert spans.all[0].attributes[semconv.GEN_AI_REQUEST_MODEL] == "Sequential"
