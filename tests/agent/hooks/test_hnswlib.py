"""The hook of `hnswlib`, with indexes in memory."""

import numpy as np
import pytest

from latencytrace.agent.hooks.vector_databases import HnswlibHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import hooked

hnswlib = pytest.importorskip("hnswlib")


@pytest.mark.parametrize("kind", ["Index", "BFIndex"])
def test_a_search_is_one_span_of_retrieving(kind: str) -> None:
    index = getattr(hnswlib, kind)(space="l2", dim=3)
    index.init_index(max_elements=3)
    vectors = np.eye(3, dtype=np.float32)
    index.add_items(vectors, np.arange(3))

    with hooked(HnswlibHook) as spans:
        labels, _ = index.knn_query(vectors[:2], k=1)
        index.knn_query(vectors[0], 2)

    assert labels.tolist() == [[0], [1]]
    several, one = spans.all
    assert dict(several.attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "hnswlib",
        semconv.GEN_AI_RETRIEVAL_TOP_K: 1,
        semconv.DB_OPERATION_BATCH_SIZE: 2,
        semconv.INDEX_SIZE: 3,
    }
    assert one.attributes[semconv.GEN_AI_RETRIEVAL_TOP_K] == 2
    assert semconv.DB_OPERATION_BATCH_SIZE not in one.attributes


def test_what_a_search_raises_passes_through_and_fails_its_span() -> None:
    index = hnswlib.Index(space="l2", dim=3)
    index.init_index(max_elements=3)

    with hooked(HnswlibHook) as spans, pytest.raises(RuntimeError):
        index.knn_query(np.eye(3, dtype=np.float32), k=2)

    assert spans.only.attributes[semconv.ERROR_TYPE] == "RuntimeError"
