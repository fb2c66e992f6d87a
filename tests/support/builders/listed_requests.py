"""Answers about a few requests, without an engine."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from latencytrace.model import Request
from latencytrace.service.store import Questions


class Listed(Questions):
    """Answers about requests in a list, going over them one by one."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._requests = [
            replace(one, trace_id=f"{number:032x}") for number, one in enumerate(requests, 1)
        ]

    def written(self, trace_ids: Collection[str]) -> Sequence[Request]:
        return [one for one in self._requests if one.trace_id in trace_ids]

    def of_service(self, service: str | None) -> Iterable[Request]:
        return [one for one in self._requests if service in {None, one.service}]
