"""What columns and objects make of the same traces."""

from collections.abc import Mapping, Sequence

from latencytrace.analysis.columns.facts import Facts
from latencytrace.analysis.columns.objects import requests_of as objects_of
from latencytrace.analysis.columns.request_table import RequestTable
from latencytrace.analysis.columns.requests import attributed
from latencytrace.analysis.columns.shapes import Shapes
from latencytrace.analysis.columns.tables import Tables
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import Request, Span
from tests.support.builders.spans.span_batches import span_batch
from tests.support.compiled import need_compiled

Traces = Mapping[str, Sequence[Span]]


class ByColumns:
    """Divides batch after batch, as a compiled service does; without one, a test is skipped."""

    def __init__(self, most_shapes: int | None = None) -> None:
        need_compiled()
        self.shapes = Shapes() if most_shapes is None else Shapes(most_shapes)
        self._facts = Facts()
        self._tables = Tables()

    def __call__(
        self, traces: Traces, revisions: Mapping[tuple[str, str], int] | None = None
    ) -> tuple[dict[str, list[Request]], list[str]]:
        """Divide traces.

        Returns:
            The requests of those that went by columns; and the others.
        """
        table, others = self.table(traces)
        found: dict[str, list[Request]] = {one: [] for one in traces if one not in set(others)}
        for request in objects_of(table, revisions):
            found[request.trace_id].append(request)
        return found, others

    def table(self, traces: Traces) -> tuple[RequestTable, list[str]]:
        """Divide traces into a table; the others are as above."""
        batch = span_batch(traces, self.shapes)
        columns, odd = attributed(batch, self._facts)
        return self._tables.of(columns), [batch.trace_ids[number] for number in odd.tolist()]


def differences(
    found: Mapping[str, Sequence[Request]], traces: Traces, *, rootless: bool = False
) -> list[str]:
    """Where the requests of traces are not those that objects give."""
    return [
        trace_id
        for trace_id, requests in found.items()
        if list(map(repr, requests))
        != list(map(repr, requests_of(traces[trace_id], {}, rootless=rootless)))
    ]
