"""Requests that were sent again unchanged: senders retry, and files are imported twice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from latencytrace.model import Request, Span
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.store import Store


def apart_from_resent(
    tables: Iterable[LedgerTable], written: Iterable[Request]
) -> tuple[list[LedgerTable], LedgerTable]:
    """Separate new requests from requests that the store has already, with the same content.

    Args:
        written: The requests in the store of the traces that it has some of.

    Returns:
        New and changed requests; the unchanged ones, with the revision in the store.
    """
    found = {(one.trace_id, one.span_id): one for one in written}
    fresh: list[LedgerTable] = []
    resent: list[Request] = []
    for table in tables:
        if not table.is_revised:
            fresh.append(table)
            continue
        new: list[Request] = []
        for request in table.requests():
            before = found.get((request.trace_id, request.span_id))
            if before is not None and replace(request, revision=before.revision) == before:
                resent.append(before)
            else:
                new.append(request)
        fresh.append(LedgerTable.of(new))
    return fresh, LedgerTable.of(resent)


def grown(resent: LedgerTable, arrived: Mapping[str, Sequence[Span]], store: Store) -> set[str]:
    """Return the traces whose spans are kept and have become more, though no request changed."""
    trace_ids = set(resent.trace_ids)
    counts = store.kept_counts(trace_ids) if trace_ids else {}
    return {trace_id for trace_id, count in counts.items() if count != len(arrived[trace_id])}
