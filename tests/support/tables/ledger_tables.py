"""Requests as the tables that stores, metrics and objectives take."""

from collections.abc import Iterable

from latencytrace.model import Request
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.store import Store, Written


def tables_of(requests: Iterable[Request]) -> list[LedgerTable]:
    """Requests as one table."""
    return [LedgerTable.of(requests)]


def write(store: Store, requests: Iterable[Request], *more: object, **named: object) -> Written:
    """Have a store write requests; the others are the arguments of `Store.write`."""
    return store.write(tables_of(requests), *more, **named)  # type: ignore[arg-type]
