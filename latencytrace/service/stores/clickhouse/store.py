"""The store on a ClickHouse server: the tables and the SQL of the embedded one."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import StringIO
from pathlib import Path
from typing import Self

from latencytrace.errors import SettingsError
from latencytrace.service.clock import now_ns
from latencytrace.service.sql_store.pending_copies import TO_KEEP, NotedTraces
from latencytrace.service.sql_store.rollups import EXACT_REQUESTS
from latencytrace.service.sql_store.store import SqlStore
from latencytrace.service.stores.clickhouse.address import ServerAddress
from latencytrace.service.stores.clickhouse.server import Server, ServerConnection


class ClickHouseStore(SqlStore):
    """Make one with `open_at`."""

    @classmethod
    def open(
        cls,
        folder: Path,  # noqa: ARG003 - it names no server
        day_ns: Callable[[], int] = now_ns,  # noqa: ARG003 - of the contract
        exact_requests: int = EXACT_REQUESTS,  # noqa: ARG003 - of the contract
    ) -> Self:
        """Refuse: a folder names no server."""
        raise SettingsError(
            "the store clickhouse is on a server: write --store clickhouse://HOST:8123/DATABASE"
        )

    @classmethod
    def open_at(cls, url: str, folder: Path) -> Self:
        return cls._on(Server.open(ServerAddress.parse(url), folder), folder)

    @classmethod
    def open_beside(cls, url: str, folder: Path) -> Self:
        return cls._on(Server.open(ServerAddress.parse(url), folder, lock=StringIO()), folder)

    @classmethod
    @contextmanager
    def reading(cls, url: str) -> Iterator[ServerConnection]:
        """A connection for a user with the right to read alone, to any tables."""
        with closing(Server(ServerAddress.parse(url), StringIO())) as server:
            yield server.only_reading()

    @classmethod
    def _on(cls, server: Server, folder: Path) -> Self:
        try:
            return cls(server, NotedTraces(folder / TO_KEEP), now_ns, EXACT_REQUESTS)
        except BaseException:
            server.close()
            raise
