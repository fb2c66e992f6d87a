"""The hook of MLflow, with its own server of a model."""

from pathlib import Path
from typing import Any

import pytest

from latencytrace.agent.hooks.mlflow import MlflowHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request

pyfunc = pytest.importorskip("mlflow.pyfunc")
scoring_server = pytest.importorskip("mlflow.pyfunc.scoring_server")
HOOKS = (MlflowHook,)


@pytest.fixture
def model(tmp_path: Path) -> Any:
    class Doubles(pyfunc.PythonModel):  # type: ignore[misc,name-defined] # likewise
        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            return [2 * number for number in model_input["x"]]

    pyfunc.save_model(str(tmp_path / "model"), python_model=Doubles())
    return pyfunc.load_model(str(tmp_path / "model"))


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("application/json", '{"dataframe_split": {"columns": ["x"], "data": [[7], [13]]}}'),
        ("text/csv", "x\n7\n13\n"),
    ],
)
def test_what_is_asked_is_read_predicted_and_written(
    spans: Spans,
    model: Any,
    content_type: str,
    data: str,
) -> None:
    answers: list[Any] = []

    in_request(
        spans,
        lambda: answers.append(scoring_server.invocations(data, content_type, model, None)),
    )

    assert answers[0].response == '{"predictions": [14, 26]}'
    assert spans.names == ["parse input", "predict", "predictions_to_json", "request"]
    assert spans.stages == [Stage.PREPROCESS, Stage.FORWARD, Stage.POSTPROCESS, None]
    assert "13" not in attribute_text(spans)


def test_a_prediction_that_fails_is_an_error(spans: Spans, model: Any) -> None:
    with pytest.raises(KeyError):
        model.predict({"y": [1]})

    assert spans.only.attributes[semconv.ERROR_TYPE] == "KeyError"
