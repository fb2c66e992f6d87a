"""The embedded store: ClickHouse's engine in this process, one folder, no server."""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from latencytrace.service.clock import now_ns
from latencytrace.service.sql_store.pending_copies import TO_KEEP, NotedTraces
from latencytrace.service.sql_store.rollups import EXACT_REQUESTS
from latencytrace.service.sql_store.store import SqlStore
from latencytrace.service.stores.chdb.engine import Engine


class ChdbStore(SqlStore):
    """Make one with `open`."""

    @classmethod
    def open(
        cls,
        folder: Path,
        day_ns: Callable[[], int] = now_ns,
        exact_requests: int = EXACT_REQUESTS,
    ) -> Self:
        """Open a store in a folder.

        Args:
            day_ns: The time of day, by which windows become quiet.
            exact_requests: Above so many requests, quantiles may be from histograms.
        """
        engine = Engine.open(folder)
        return cls(engine, NotedTraces(folder / TO_KEEP), day_ns, exact_requests)
