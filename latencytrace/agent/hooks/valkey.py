"""Commands sent to Valkey with its own client."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.redis_commands import redis_commands


class ValkeyHook(Hook):
    """Times single commands and pipelines of both clients, within a request."""

    requires = ("valkey >= 6.0",)
    patches = redis_commands("valkey", "Valkey")
