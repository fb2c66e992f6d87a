"""The table of a vector database: which calls become which spans, and what is noted."""

from types import SimpleNamespace

from latencytrace.agent.toolkit.vector_database import VectorDatabase
from latencytrace.model import Stage, semconv

DATABASE = VectorDatabase(system="some", collection="self.table.name", top_k=("k", "self.limit"))


def test_each_method_of_each_client_is_a_patch_of_its_stage() -> None:
    patches = DATABASE.calls(
        "some.client", "Client", "AsyncClient", searches=["find"], writes=["put"], optional=["put"]
    )

    assert [(patch.target, patch.stage, patch.optional) for patch in patches] == [
        ("Client.find", Stage.RETRIEVE, False),
        ("Client.put", Stage.DATABASE, True),
        ("AsyncClient.find", Stage.RETRIEVE, False),
        ("AsyncClient.put", Stage.DATABASE, True),
    ]
    assert {patch.module for patch in patches} == {"some.client"}


def test_a_collection_may_lie_within_an_argument_and_the_first_limit_counts() -> None:
    client = SimpleNamespace(table=SimpleNamespace(name="passages"), limit=7)

    assert DATABASE.describe({"self": client, "k": 3}) == {
        semconv.DB_SYSTEM_NAME: "some",
        semconv.DB_COLLECTION_NAME: "passages",
        semconv.GEN_AI_RETRIEVAL_TOP_K: 3,
    }
    assert DATABASE.describe({"self": client})[semconv.GEN_AI_RETRIEVAL_TOP_K] == 7


def test_what_is_unknown_is_left_out() -> None:
    assert DATABASE.describe({"self": object(), "k": "many"}) == {semconv.DB_SYSTEM_NAME: "some"}
