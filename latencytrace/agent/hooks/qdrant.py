"""Vector searches made with `qdrant-client`."""

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch
from latencytrace.model import semconv
from latencytrace.model.stage import Stage


def describe_search(arguments: Arguments) -> HookAttributes:
    """Note the collection searched and how many points were wanted, never the query itself."""
    attributes: HookAttributes = {
        semconv.DB_SYSTEM_NAME: "qdrant",
        semconv.DB_COLLECTION_NAME: str(arguments["collection_name"]),
    }
    limit = arguments.get("limit")
    if isinstance(limit, int):
        attributes[semconv.GEN_AI_RETRIEVAL_TOP_K] = limit
    return attributes


def _searches(client: str) -> tuple[Patch, ...]:
    return tuple(
        Patch("qdrant_client", f"{client}.{method}", stage, describe_search)
        for method, stage in (
            ("query_points", Stage.RETRIEVE),
            ("query_batch_points", Stage.RETRIEVE),
            ("query_points_groups", Stage.RETRIEVE),
            ("scroll", Stage.RETRIEVE),
            ("retrieve", Stage.RETRIEVE),
            ("upsert", Stage.DATABASE),
        )
    )


class QdrantHook(Hook):
    """Times the methods that every search goes through, in both clients."""

    requires = ("qdrant-client >= 1.10",)
    patches = _searches("QdrantClient") + _searches("AsyncQdrantClient")
