"""Commands sent to Redis or Valkey: a cache, a database, or searches by vectors."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from latencytrace.agent.timing.hook import HookAttributes, Replacement
from latencytrace.agent.toolkit.calls import Build
from latencytrace.agent.toolkit.database_calls import DatabaseCall, timed_database_calls
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_STAGES: Final = (Stage.CACHE, Stage.RETRIEVE, Stage.DATABASE)
_SEARCHES: Final = frozenset({"FT.SEARCH", "FT.AGGREGATE", "FT.HYBRID", "VSIM"})
_CACHED: Final = frozenset(
    {
        "GET", "MGET", "GETEX", "GETDEL", "GETSET", "SET", "MSET", "SETEX", "PSETEX", "SETNX",
        "EXISTS", "TTL", "EXPIRE", "DEL", "UNLINK", "JSON.GET", "JSON.MGET", "JSON.SET",
        "HGET", "HMGET", "HGETALL", "HSET", "HMSET", "HSETNX", "HEXISTS", "HDEL",
    }
)  # fmt: skip
# Reads that wait for another client to write: the request does not wait for Redis in them.
_WAITS: Final = frozenset(
    {
        "BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP",
        "XREAD", "XREADGROUP", "WAIT", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR",
    }
)  # fmt: skip
Commands = Callable[[tuple[Any, ...]], Iterable[tuple[Any, ...]]]  # of the arguments of a call


def _stage_of(commands: Iterable[str]) -> Stage:
    """Say what commands that are sent together are part of."""
    names = set(commands)
    if names & _SEARCHES:
        return Stage.RETRIEVE
    return Stage.CACHE if names <= _CACHED else Stage.DATABASE


def _timed_commands(system: str, commands_of: Commands) -> Build:
    """Build what times a method that sends commands of a request, sync or async."""

    def read(args: tuple[Any, ...], _: dict[str, Any]) -> DatabaseCall | None:
        # A command may be given in one text, with its keys and values.
        commands = [
            (str(each[0]).upper().partition(" ")[0], *each[1:2]) for each in commands_of(args)
        ]
        names = [name for name, *_ in commands]
        if not names or not _WAITS.isdisjoint(names):
            return None
        stage = _stage_of(names)
        name = names[0] if len(names) == 1 else "PIPELINE"
        noted = {semconv.DB_SYSTEM_NAME: system, **_described(commands, stage)}
        return DatabaseCall(name, stage, noted)

    return timed_database_calls(lambda _: read, _STAGES)


def _described(commands: list[tuple[Any, ...]], stage: Stage) -> HookAttributes:
    """Note the command and the index of a search; keys and values are the program's."""
    if len(commands) > 1:
        return {
            semconv.DB_OPERATION_NAME: "PIPELINE",
            semconv.DB_OPERATION_BATCH_SIZE: len(commands),
        }
    name, *first = commands[0]
    noted: HookAttributes = {semconv.DB_OPERATION_NAME: name}
    if stage is Stage.RETRIEVE and first:
        noted[semconv.DB_COLLECTION_NAME] = str(first[0])
    return noted


def _sent(args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [args[1:]]


def _stacked(args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [each[0] for each in args[0].command_stack]


def _stacked_for_cluster(args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return the commands of a pipeline, which each version keeps elsewhere."""
    pipeline = args[0]
    keeper = getattr(pipeline, "_execution_strategy", pipeline)
    names = ("_command_queue", "_command_stack", "command_stack")
    return [each.args for each in next(getattr(keeper, n) for n in names if hasattr(keeper, n))]


def redis_commands(system: str, client: str) -> tuple[Replacement, ...]:
    """Patch the clients of a server and of a cluster: commands and pipelines, sync and async.

    Args:
        system: The value of `db.system.name`, as which the library is imported.
    """
    return tuple(
        Replacement(f"{system}.{module}", target, _timed_commands(system, commands_of))
        for kind, single, pipeline, stacked in (
            ("client", client, "Pipeline", _stacked),
            ("cluster", f"{client}Cluster", "ClusterPipeline", _stacked_for_cluster),
        )
        for module in (kind, f"asyncio.{kind}")
        for target, commands_of in (
            (f"{single}.execute_command", _sent),
            (f"{pipeline}.execute", stacked),
        )
    )
