"""Commands sent to memcached with `pymemcache`, within a request."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.wrapping import named_arguments
from latencytrace.agent.toolkit.database_calls import DatabaseCall, timed_database_calls
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_MANY: Final = ("keys", "values")  # arguments that hold what is read or written


def _reading(argument: str) -> Callable[[Timed], Callable[..., DatabaseCall]]:
    def reading(original: Timed) -> Callable[..., DatabaseCall]:
        arguments_of = named_arguments(original)

        def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> DatabaseCall:
            """Note the command and of how many keys, never one of them."""
            arguments: Mapping[str, Any] = arguments_of(args, kwargs)
            name = bytes(arguments[argument]).decode("ascii", "replace")
            noted = {semconv.DB_SYSTEM_NAME: "memcached", semconv.DB_OPERATION_NAME: name}
            count = next((len(arguments[each]) for each in _MANY if each in arguments), 1)
            many = {semconv.DB_OPERATION_BATCH_SIZE: count} if count > 1 else {}
            return DatabaseCall(name, Stage.CACHE, {**noted, **many})

        return read

    return reading


class PymemcacheHook(Hook):
    """Times the three methods that all commands of all its clients go through."""

    requires = ("pymemcache >= 3.5",)
    patches = tuple(
        Replacement(
            "pymemcache.client.base",
            f"Client.{method}",
            timed_database_calls(_reading(argument), (Stage.CACHE,)),
        )
        for method, argument in (
            ("_fetch_cmd", "name"),
            ("_store_cmd", "name"),
            ("_misc_cmd", "cmd_name"),
        )
    )
