"""The hook of `faiss`, with indexes of many classes."""

import gc
import sys
import weakref
from typing import Any

import faiss
import numpy as np
import pytest

from latencytrace.agent.hooks.faiss import FaissHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked

HOOKS = (FaissHook,)
WIDTH = 8
SIZE = 64
VECTORS = np.random.default_rng(0).random((SIZE, WIDTH), np.float32)
CODES = (VECTORS * 255).astype(np.uint8)  # of 8 * WIDTH bits each
QUERIES = VECTORS[:3]


def index_of(kind: str) -> Any:
    """An index of the factory's language, filled."""
    index = faiss.index_factory(WIDTH, kind)
    index.train(VECTORS)
    index.add(VECTORS)
    return index


def subclasses(owner: type) -> set[type]:
    below: set[type] = set(owner.__subclasses__())
    return below.union(*map(subclasses, below))


def test_a_search_is_one_span_of_retrieving(spans: Spans) -> None:
    index = index_of("Flat")

    _, labels = index.search(QUERIES, 2)

    assert labels[:, 0].tolist() == [0, 1, 2]
    assert spans.only.name == "search"
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "faiss",
        semconv.INDEX_TYPE: "IndexFlat",
        semconv.INDEX_SIZE: SIZE,
        semconv.DB_OPERATION_BATCH_SIZE: 3,
        semconv.GEN_AI_RETRIEVAL_TOP_K: 2,
    }


@pytest.mark.parametrize(
    "kind",
    ["Flat", "SQ8", "HNSW8", "IVF2,Flat", "IVF2,PQ2x4", "PQ2x4", "PCA4,Flat",
     "IVF2,Flat,RFlat", "LSH", "IVF2,PQ2x4fs"],
)  # fmt: skip
def test_every_class_of_index_makes_one_span_a_search(spans: Spans, kind: str) -> None:
    index = index_of(kind)
    spans.all.clear()

    index.search(QUERIES, 1)

    assert (spans.names, spans.stages) == (["search"], [Stage.RETRIEVE])


@pytest.mark.parametrize("base", [faiss.Index, faiss.IndexBinary])
def test_no_class_is_left_out_and_each_gets_its_very_own_back(base: type) -> None:
    classes = [kind for kind in {base, *subclasses(base)} if "search_c" in vars(kind)]
    before = [vars(kind)["search_c"] for kind in classes]

    with hooked(FaissHook):
        patched = [vars(kind)["search_c"] for kind in classes]

    assert len(classes) >= 10
    assert not any(now is then for now, then in zip(patched, before, strict=True))
    assert all(vars(kind)["search_c"] is then for kind, then in zip(classes, before, strict=True))


def test_a_search_within_a_radius_is_timed(spans: Spans) -> None:
    limits, _, _ = index_of("Flat").range_search(QUERIES, 0.01)

    assert limits[-1] >= 3
    assert (spans.only.name, spans.stages) == ("range_search", [Stage.RETRIEVE])
    assert semconv.GEN_AI_RETRIEVAL_TOP_K not in spans.only.attributes


def test_a_search_that_gives_the_vectors_back_is_timed(spans: Spans) -> None:
    index_of("Flat").search_and_reconstruct(QUERIES, 2)

    assert (spans.only.name, spans.stages) == ("search_and_reconstruct", [Stage.RETRIEVE])


def test_a_search_of_chosen_lists_is_timed(spans: Spans) -> None:
    index = index_of("IVF2,Flat")
    distances, lists = index.quantizer.search(QUERIES, 1)
    spans.all.clear()

    index.search_preassigned(QUERIES, 2, lists, distances)

    assert (spans.only.name, spans.stages) == ("search_preassigned", [Stage.RETRIEVE])


def test_a_search_of_bits_is_timed(spans: Spans) -> None:
    index = faiss.IndexBinaryFlat(8 * WIDTH)
    index.add(CODES)

    index.search(CODES[:3], 2)
    index.range_search(CODES[:3], 1)

    assert spans.names == ["search", "range_search"]
    assert {span.attributes[semconv.INDEX_TYPE] for span in spans.all} == {"IndexBinaryFlat"}


def test_a_search_without_an_index_is_timed(spans: Spans) -> None:
    faiss.knn(QUERIES, VECTORS, 2)

    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "faiss",
        semconv.INDEX_SIZE: SIZE,
        semconv.DB_OPERATION_BATCH_SIZE: 3,
        semconv.GEN_AI_RETRIEVAL_TOP_K: 2,
    }


def test_what_faiss_raises_passes_through(spans: Spans) -> None:
    index = index_of("Flat")

    with pytest.raises(TypeError):
        index.search(QUERIES, 2, params="no parameters")

    assert spans.only.attributes[semconv.ERROR_TYPE] == "TypeError"


def test_filling_an_index_is_no_search(spans: Spans) -> None:
    index_of("Flat")

    assert spans.all == []


def test_no_vector_is_kept_or_noted(spans: Spans) -> None:
    queries = QUERIES.copy()
    references_before = sys.getrefcount(queries)

    kept = weakref.ref(index_of("Flat").search(queries, 2)[0])

    gc.collect()
    assert kept() is None
    assert sys.getrefcount(queries) == references_before
    assert str(float(queries[0, 0])) not in attribute_text(spans)
