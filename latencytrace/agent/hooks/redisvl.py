"""Semantic caches of redisvl; its searches are seen by redis-py's hook."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.model.stage import Stage


class RedisvlHook(Hook):
    """Times what a cache is asked and told, with the embedding within it."""

    requires = ("redisvl >= 0.5",)
    patches = tuple(
        Patch(
            "redisvl.extensions.cache.llm.semantic",
            f"SemanticCache.{method}",
            Stage.CACHE,
            name=f"semantic cache {method.removeprefix('a')}",
        )
        for method in ("check", "acheck", "store", "astore")
    )
