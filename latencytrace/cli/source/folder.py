"""The data folder itself as a source of answers: the service's application, in this process."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import httpx

from latencytrace.errors import LatencytraceError, TooLargeError
from latencytrace.service.clock import now_ns
from latencytrace.service.storage.baselines import NAME as BASELINES
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.store import Store, open_store
from latencytrace.service.web.application import API, application
from latencytrace.service.web.context import ServiceContext
from latencytrace.settings import service_settings


class FolderSource:
    """Asks the API's application about an open store; nothing listens."""

    def __init__(self, store: Store, folder: Path) -> None:
        baselines = Baselines(folder / BASELINES)
        context = ServiceContext(store=store, baselines=baselines, now_ns=now_ns)
        self._transport = httpx.ASGITransport(application(context))

    def document(self, path: str, parameters: Mapping[str, str]) -> object:
        document: object = json.loads(self.body(path, parameters))
        return document

    def body(self, path: str, parameters: Mapping[str, str]) -> bytes:
        return self._answer("GET", path, parameters=parameters)

    def send(self, method: str, path: str, document: object) -> object:
        answer: object = json.loads(self._answer(method, path, document=document))
        return answer

    def _answer(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        document: object = None,
    ) -> bytes:
        answer = asyncio.run(self._asked(method, path, parameters, document))
        if answer.is_error:
            large = answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            raise (TooLargeError if large else LatencytraceError)(answer.json()["detail"])
        return answer.content

    async def _asked(
        self, method: str, path: str, parameters: Mapping[str, str] | None, document: object
    ) -> httpx.Response:
        async with httpx.AsyncClient(
            transport=self._transport, base_url="http://folder"
        ) as client:
            return await client.request(method, f"{API}{path}", params=parameters, json=document)


@contextmanager
def open_folder(folder: Path) -> Iterator[FolderSource]:
    """Open a data folder for reading; it is locked meanwhile.

    Raises:
        StoreInUseError: A service owns it.
    """
    settings = service_settings(folder=folder)
    store = open_store(settings.store, settings.folder)
    try:
        yield FolderSource(store, settings.folder)
    finally:
        store.close()
