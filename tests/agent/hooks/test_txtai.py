"""The hook of txtai, with its own index and database."""

from typing import Any

import pytest

from latencytrace.agent.hooks.text_models import TxtaiHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, attribute_text, in_request

txtai = pytest.importorskip("txtai")
numpy = pytest.importorskip("numpy")

HOOKS = (TxtaiHook,)


def embed(texts: list[str]) -> Any:
    return numpy.array([[len(text), 1.0] for text in texts], dtype=numpy.float32)


def test_a_search_is_retrieving_with_the_embedding_within_it(spans: Spans) -> None:
    index = txtai.Embeddings(method="external", transform=embed, content=True)
    index.index(["one", "fifteen"])
    spans.all.clear()

    in_request(spans, lambda: index.search("a secret", 1))

    embedding, search, _ = spans.all
    assert spans.stages == [Stage.EMBED, Stage.RETRIEVE, None]
    assert (search.name, embedding.parent_id) == ("search", search.span_id)
    assert "secret" not in attribute_text(spans)
    index.close()


def test_a_text_that_is_transformed_is_embedded(spans: Spans) -> None:
    index = txtai.Embeddings(method="external", transform=embed)

    assert len(index.transform("a secret")) == 2

    assert spans.stages == [Stage.EMBED]
