"""Commands sent to Redis and Valkey with their own clients."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.redis_commands import redis_commands


class RedisHook(Hook):
    """Times single commands and pipelines of both clients, within a request."""

    requires = ("redis >= 5.0",)
    patches = redis_commands("redis", "Redis")


class ValkeyHook(Hook):
    """Times single commands and pipelines of both clients, within a request."""

    requires = ("valkey >= 6.0",)
    patches = redis_commands("valkey", "Valkey")
