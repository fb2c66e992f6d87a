"""The hook of KServe, with its own classes of models."""

import asyncio
from typing import Any

import pytest

from latencytrace.agent.hooks.kserve import KserveHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked, in_request

kserve = pytest.importorskip("kserve")
HOOKS = (KserveHook,)


def iris() -> Any:
    class Iris(kserve.Model):  # type: ignore[misc,name-defined] # of a library that need not be there
        async def preprocess(self, payload: Any, headers: Any = None) -> Any:
            return payload["instances"]

        def predict(self, payload: Any, headers: Any = None) -> Any:
            if payload == [13]:
                raise ValueError("an unlucky number")
            return [2 * number for number in payload]

        def postprocess(self, result: Any, headers: Any = None) -> Any:
            return {"predictions": result}

    model = Iris("iris")
    model.ready = True
    return model


def asked(model: Any, *numbers: int) -> Any:
    return asyncio.run(model({"instances": list(numbers)}, headers={}))[0]


def test_what_a_model_does_is_in_its_stages(spans: Spans) -> None:
    model = iris()
    answers = []

    in_request(spans, lambda: answers.append(asked(model, 1, 2)))

    assert answers == [{"predictions": [2, 4]}]
    assert spans.names == ["preprocess", "predict", "postprocess", "request"]
    assert spans.stages == [Stage.PREPROCESS, Stage.FORWARD, Stage.POSTPROCESS, None]
    assert spans.all[1].attributes[semconv.GEN_AI_REQUEST_MODEL] == "iris"


def test_a_prediction_that_fails_is_an_error(spans: Spans) -> None:
    model = iris()
    with pytest.raises(ValueError, match="unlucky"):
        asked(model, 13)

    assert spans.all[-1].attributes[semconv.ERROR_TYPE] == "ValueError"


def test_kserves_own_methods_are_left_alone(spans: Spans) -> None:
    class Passing(kserve.Model):  # type: ignore[misc,name-defined] # likewise
        def predict(self, payload: Any, headers: Any = None) -> Any:
            return payload

    model = Passing("passing")
    model.ready = True
    asyncio.run(model({"instances": [1]}, headers={}))

    assert spans.names == ["predict"]


def test_a_class_is_as_before_once_nothing_is_timed() -> None:
    model = iris()
    before = dict(vars(type(model)))

    with hooked(*HOOKS) as spans:
        asked(model, 1)
        assert len(spans.all) == 3

    assert dict(vars(type(model))) == before
