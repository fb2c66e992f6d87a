"""The hook of scikit-learn, with estimators of many kinds."""

import pickle
from typing import Any

import numpy as np
import pytest

from latencytrace.agent.hooks.boosters import SklearnHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked, in_request
from tests.support.later import Later

base = Later("sklearn.base")
discriminant_analysis = Later("sklearn.discriminant_analysis")
ensemble = Later("sklearn.ensemble")
features = Later("sklearn.feature_extraction.text")
linear_model = Later("sklearn.linear_model")
neighbors = Later("sklearn.neighbors")
pipeline = Later("sklearn.pipeline")
preprocessing = Later("sklearn.preprocessing")
svm = Later("sklearn.svm")
tree = Later("sklearn.tree")

HOOKS = (SklearnHook,)
ROWS = np.random.default_rng(0).random((40, 3))
CLASSES = (ROWS[:, 0] > 0.5).astype(int)


def test_a_prediction_is_one_span_with_its_model_and_rows(spans: Spans) -> None:
    model = linear_model.LogisticRegression().fit(ROWS, CLASSES)
    assert spans.all == []  # outside of any request

    in_request(spans, lambda: model.predict(ROWS[:5]))

    assert spans.names == ["predict", "request"]
    assert dict(spans.all[0].attributes) == {
        semconv.STAGE: Stage.FORWARD,
        semconv.GEN_AI_REQUEST_MODEL: "LogisticRegression",
        semconv.BATCH_SIZE: 5,
    }


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (discriminant_analysis, "LinearDiscriminantAnalysis"),
        (tree, "DecisionTreeRegressor"),
        (ensemble, "RandomForestClassifier"),
        (linear_model, "Ridge"),
        (linear_model, "RidgeClassifier"),
        (svm, "SVC"),
    ],
)
def test_whatever_the_class_a_prediction_is_one_span(
    spans: Spans, module: Later, name: str
) -> None:
    parallel = {"n_estimators": 3, "n_jobs": 2} if module is ensemble else {}
    model = getattr(module, name)(**parallel).fit(ROWS, CLASSES)

    in_request(spans, lambda: model.predict(ROWS))

    assert spans.names == ["predict", "request"]
    assert spans.all[0].attributes[semconv.GEN_AI_REQUEST_MODEL] == name


def test_of_a_pipeline_each_step_is_a_span(spans: Spans) -> None:
    made = pipeline.make_pipeline(features.TfidfVectorizer(), linear_model.LogisticRegression())
    texts = ["a secret", "another one", "one more"]
    made.fit(texts, [0, 1, 1])

    in_request(spans, lambda: made.predict_proba(texts))

    assert spans.names == ["transform", "predict_proba", "request"]
    assert spans.stages[:2] == [Stage.PREPROCESS, Stage.FORWARD]
    assert {span.attributes.get(semconv.BATCH_SIZE) for span in spans.all[:2]} == {3}
    assert "secret" not in attribute_text(spans)


def test_a_search_for_neighbours_is_retrieving(spans: Spans) -> None:
    index = neighbors.NearestNeighbors().fit(ROWS)

    in_request(spans, lambda: index.kneighbors(ROWS[:2], 3))

    assert (spans.names, spans.stages[0]) == (["kneighbors", "request"], Stage.RETRIEVE)


MADE_LATER = """
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

class Own(ClassifierMixin, BaseEstimator):
    def predict(self, X):
        return X

class Scaled(TransformerMixin, BaseEstimator):
    def fit(self, _):
        return self

    def transform(self, X):
        return X
"""


def test_a_class_that_is_made_later_is_timed_until_everything_is_restored() -> None:
    made: dict[str, Any] = {"__name__": "imported_later"}
    with hooked(SklearnHook) as spans:
        exec(MADE_LATER, made)  # noqa: S102 - our own
        own, scaled = made["Own"](), made["Scaled"]()

        in_request(spans, lambda: own.predict(scaled.fit(ROWS).transform(ROWS)))

    assert spans.names == ["transform", "predict", "request"]
    spans.all.clear()
    in_request(spans, lambda: own.predict(scaled.transform(ROWS)))
    assert spans.names == ["request"]


@pytest.mark.usefixtures("spans")
def test_a_class_that_joblib_sends_to_its_workers_by_value_is_sent_as_before() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")

    class Own(base.ClassifierMixin, base.BaseEstimator):  # type: ignore[misc, name-defined]  # which are not known yet
        def predict(self, X: Any) -> Any:  # noqa: N803 - as scikit-learn calls it
            return X

    of_script: dict[str, Any] = {"__name__": "__main__"}
    exec(MADE_LATER, of_script)  # noqa: S102 - our own

    for model in (Own(), of_script["Own"]()):
        again = pickle.loads(cloudpickle.dumps(model))  # noqa: S301 - our own
        assert again.predict(1) == 1


def test_classes_get_their_very_own_methods_back() -> None:
    places = [
        (kind, name)
        for kind in (
            linear_model.LogisticRegression,
            ensemble.RandomForestClassifier,
            svm.SVC,
            preprocessing.StandardScaler,
        )
        for base in kind.__mro__
        for name in ("predict", "transform", "decision_function", "__init_subclass__")
        if name in vars(base)
    ]
    before = [getattr(kind, name) for kind, name in places]

    with hooked(SklearnHook):
        pass

    assert [getattr(kind, name) for kind, name in places] == before


def test_a_model_is_pickled_and_asked_for_its_methods_as_before(spans: Spans) -> None:
    model = svm.SVC().fit(ROWS, CLASSES)

    again = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own

    assert not hasattr(again, "predict_proba")  # it was not asked to fit probabilities
    in_request(spans, lambda: again.predict(ROWS[:1]))
    assert spans.names == ["predict", "request"]


def test_what_an_estimator_raises_passes_through(spans: Spans) -> None:
    model = linear_model.Ridge().fit(ROWS, CLASSES)

    with pytest.raises(ValueError, match="features"):
        in_request(spans, lambda: model.predict(ROWS[:, :1]))

    assert spans.all[0].attributes[semconv.ERROR_TYPE] == "ValueError"


def test_the_predictions_of_one_span_are_bounded(spans: Spans) -> None:
    model = linear_model.Ridge().fit(ROWS, CLASSES)

    in_request(spans, lambda: [model.predict(ROWS[:1]) for _ in range(300)])

    assert len(spans.of(Stage.FORWARD)) == 256
