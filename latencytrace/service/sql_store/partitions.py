"""The partitions of the tables: one a day of arrival, of `span_arrivals` one an hour."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from latencytrace.service.sql.tables import DROP_PARTITION, ROLLUPS
from latencytrace.service.store import Partition, Table

_SECOND_NS: Final = 10**9
_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S


def partitions_from(rows: Iterable[Sequence[Any]]) -> list[Partition]:
    """Partitions from the rows of the answer to `tables.PARTITIONS`."""
    return [
        Partition(
            table=Table(table),
            since_ns=_since_s(name) * _SECOND_NS,
            until_ns=(_since_s(name) + (_HOUR_S if table == Table.ARRIVALS else _DAY_S))
            * _SECOND_NS,
            rows=count,
            bytes=size_bytes,
        )
        for table, name, count, size_bytes in rows
    ]


def drop_statements(partition: Partition) -> Iterator[str]:
    """The statements that drop a partition, with the rollups that are part of it."""
    since_s = partition.since_ns // _SECOND_NS
    day = f"{datetime.fromtimestamp(since_s, UTC):%Y%m%d}"
    name = since_s if partition.table is Table.ARRIVALS else day
    yield DROP_PARTITION.format(table=partition.table, name=name)
    # Afterwards: what a process that dies half-way leaves of it is listed, and dropped again.
    if partition.table is Table.REQUESTS:
        yield DROP_PARTITION.format(table=ROLLUPS.partition(".")[2], name=day)


def _since_s(name: str) -> int:
    """When a partition begins: its name is a day, as 20261122, or an hour's Unix time."""
    if len(name) == len("20261122"):
        return round(datetime.strptime(name, "%Y%m%d").replace(tzinfo=UTC).timestamp())
    return int(name)
