"""Requests made with `opensearch-py`."""

from collections.abc import Callable
from typing import Any

from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.wrapping import named_arguments
from latencytrace.agent.toolkit.database_calls import DatabaseCall, timed_database_calls
from latencytrace.agent.toolkit.search_engine import described


def _reading(original: Timed) -> Callable[..., DatabaseCall]:
    arguments_of = named_arguments(original)

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> DatabaseCall:
        arguments = arguments_of(args, kwargs)
        return described("opensearch", arguments, str(arguments["url"]))

    return read


class OpensearchHook(Hook):
    """Times the one method that every request goes through, in both clients."""

    requires = ("opensearch-py >= 2.4",)
    patches = (
        Replacement(
            "opensearchpy.transport", "Transport.perform_request", timed_database_calls(_reading)
        ),
        Replacement(
            "opensearchpy._async.transport",
            "AsyncTransport.perform_request",
            timed_database_calls(_reading),
        ),
    )
