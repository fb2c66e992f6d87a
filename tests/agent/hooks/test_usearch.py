"""The hook of `usearch`, with an index in memory."""

import numpy as np
import pytest

from latencytrace.agent.hooks.vector_databases import UsearchHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import hooked

usearch = pytest.importorskip("usearch.index")


@pytest.mark.parametrize("several", [False, True], ids=["one vector", "several"])
def test_a_search_is_one_span_of_retrieving(*, several: bool) -> None:
    index = usearch.Index(ndim=3, metric="cos")
    vectors = np.eye(3, dtype=np.float32)
    index.add(np.arange(3), vectors)

    with hooked(UsearchHook) as spans:
        matches = index.search(vectors if several else vectors[1], 2)

    nearest = matches[1] if several else matches
    assert next(iter(nearest.keys)) == 1
    assert spans.only.name == "search"
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "usearch",
        semconv.GEN_AI_RETRIEVAL_TOP_K: 2,
        semconv.INDEX_SIZE: 3,
        **({semconv.DB_OPERATION_BATCH_SIZE: 3} if several else {}),
    }
