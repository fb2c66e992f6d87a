"""The data folder itself as a source of answers: the service's application, in this process."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from latencytrace.errors import LatencytraceError
from latencytrace.service.clock import now_ns
from latencytrace.service.store import Store, open_store
from latencytrace.service.web.application import API, application
from latencytrace.settings import service_settings


class FolderSource:
    """Asks the API's application about an open store; nothing listens, nothing is written.

    Args:
        store: What answers.
    """

    def __init__(self, store: Store) -> None:
        self._transport = httpx.ASGITransport(application(store, now_ns))

    def document(self, path: str, parameters: Mapping[str, str]) -> object:
        """See `reading.Source.document`."""
        document: object = json.loads(self.body(path, parameters))
        return document

    def body(self, path: str, parameters: Mapping[str, str]) -> bytes:
        """See `reading.Source.body`."""
        answer = asyncio.run(self._asked(path, parameters))
        if answer.is_error:
            raise LatencytraceError(answer.json()["detail"])
        return answer.content

    async def _asked(self, path: str, parameters: Mapping[str, str]) -> httpx.Response:
        async with httpx.AsyncClient(
            transport=self._transport, base_url="http://folder"
        ) as client:
            return await client.get(f"{API}{path}", params=parameters)


@contextmanager
def open_folder(folder: Path) -> Iterator[FolderSource]:
    """Open a data folder for reading; nobody else may own it meanwhile.

    Raises:
        StoreInUseError: A service owns it.
    """
    settings = service_settings(folder=folder)
    store = open_store(settings.store, settings.folder)
    try:
        yield FolderSource(store)
    finally:
        store.close()
