"""Requests to Elasticsearch and OpenSearch with their own clients."""

from collections.abc import Callable
from typing import Any

from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.wrapping import named_arguments
from latencytrace.agent.toolkit.database_calls import DatabaseCall, timed_database_calls
from latencytrace.agent.toolkit.search_engine import described


def _elasticsearch_reading(original: Timed) -> Callable[..., DatabaseCall | None]:
    arguments_of = named_arguments(original)

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> DatabaseCall | None:
        """Read a request; one that the client has made a span of is left to that."""
        arguments = arguments_of(args, kwargs)
        own = getattr(arguments.get("otel_span"), "otel_span", None)
        if own is not None and own.is_recording():
            return None
        return described("elasticsearch", arguments, str(arguments["path"]))

    return read


class ElasticsearchHook(Hook):
    """Times the one method that every request goes through, in both clients."""

    requires = ("elasticsearch >= 8.13",)
    patches = tuple(
        Replacement(
            f"elasticsearch.{client}.client._base",
            "BaseClient._perform_request",
            timed_database_calls(_elasticsearch_reading),
        )
        for client in ("_sync", "_async")
    )


def _opensearch_reading(original: Timed) -> Callable[..., DatabaseCall]:
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
            "opensearchpy.transport",
            "Transport.perform_request",
            timed_database_calls(_opensearch_reading),
        ),
        Replacement(
            "opensearchpy._async.transport",
            "AsyncTransport.perform_request",
            timed_database_calls(_opensearch_reading),
        ),
    )
