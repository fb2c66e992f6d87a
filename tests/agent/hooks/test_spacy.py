"""The hook of spaCy, with a pipeline that needs no download."""

from typing import Any

import pytest

from latencytrace.agent.hooks.text_models import SpacyHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of how it is made
spacy = pytest.importorskip("spacy")

HOOKS = (SpacyHook,)


@pytest.fixture(scope="module")
def nlp() -> Any:
    nlp = spacy.blank("en", meta={"name": "tiny"})
    nlp.add_pipe("sentencizer")
    return nlp


def test_a_text_is_one_span_with_its_tokenizing_apart(spans: Spans, nlp: Any) -> None:
    nlp("A secret.")  # outside of any request
    found: list[Any] = []

    in_request(spans, lambda: found.append(nlp("A secret. Another.")))

    assert len(list(found[0].sents)) == 2
    assert spans.names == ["make_doc", "nlp", "request"]
    assert spans.stages[:2] == [Stage.TOKENIZE, Stage.FORWARD]
    assert spans.all[0].parent_id == spans.all[1].span_id
    assert spans.all[1].attributes[semconv.GEN_AI_REQUEST_MODEL] == "en_tiny"
    assert "secret" not in attribute_text(spans)


def test_many_texts_are_one_span_until_the_last_is_taken(spans: Spans, nlp: Any) -> None:
    in_request(spans, lambda: list(nlp.pipe(["One.", "Two."])))

    assert [span.name for span in spans.of(Stage.FORWARD)] == ["nlp.pipe"]


def test_an_error_passes_through(spans: Spans, nlp: Any) -> None:
    def work() -> None:
        with pytest.raises(ValueError, match="E"):
            nlp(None)

    in_request(spans, work)

    assert spans.of(Stage.FORWARD)[0].attributes[semconv.ERROR_TYPE] == "ValueError"
