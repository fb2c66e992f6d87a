"""A store of some requests, for what is answered from them."""

from collections.abc import Collection, Iterable, Sequence
from typing import cast

from latencytrace.model import Request
from latencytrace.service.store import Questions, Store


class Listed(Questions):
    """These requests, which are asked one by one."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests

    def written(self, trace_ids: Collection[str]) -> Sequence[Request]:
        """Those of some traces."""
        return [one for one in self._requests if one.trace_id in trace_ids]

    def of_service(self, service: str | None) -> Iterable[Request]:
        """Those of a service."""
        return [one for one in self._requests if service in {None, one.service}]


def store_of(*requests: Request) -> Store:
    """Return a store that only answers."""
    return cast(Store, Listed(requests))
