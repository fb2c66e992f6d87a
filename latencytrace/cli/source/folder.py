"""The data folder itself as a source of answers, where no service runs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from latencytrace.errors import NotFoundError
from latencytrace.service.answers import requests as answers
from latencytrace.service.app import open_store
from latencytrace.service.clock import now_ns
from latencytrace.service.store import Order, Store
from latencytrace.settings import service_settings


@dataclass(frozen=True, slots=True)
class FolderSource:
    """Gives the API's documents from an open store."""

    store: Store

    def document(self, path: str, parameters: Mapping[str, str]) -> object:
        """See `reading.Source.document`."""
        if path == "/services":
            return answers.services(self.store)
        if path == "/breakdown":
            return answers.breakdown(self.store, answers.cohort_of(parameters, now_ns()))
        if path == "/requests":
            return answers.requests(
                self.store,
                answers.cohort_of(parameters, now_ns()),
                parameters.get("order", Order.SLOWEST),
                int(parameters.get("limit", "20")),
            )
        if path == "/gpu":
            return {"gpus": [], "stages": []}  # only a service that runs is told of them
        kind, _, trace_id = path.removeprefix("/").partition("/")
        if kind != "requests":
            raise NotFoundError(f"a folder cannot answer {path}")
        return answers.request(self.store, trace_id, parameters.get("span_id"), lambda _: False)

    def body(self, path: str, parameters: Mapping[str, str]) -> bytes:
        """See `reading.Source.body`."""
        if path != "/ledgers":
            raise NotFoundError(f"a folder cannot answer {path}")
        cohort = answers.cohort_of(parameters, now_ns())
        return answers.ledgers(self.store, cohort, parameters["format"])


@contextmanager
def open_folder(folder: Path) -> Iterator[FolderSource]:
    """Open a data folder for reading; nobody else may own it meanwhile.

    Raises:
        StoreInUseError: A service owns it.
    """
    store = open_store(service_settings(folder=folder))
    try:
        yield FolderSource(store)
    finally:
        store.close()
