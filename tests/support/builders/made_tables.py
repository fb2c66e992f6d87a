"""Tables of requests, of traces made at random, with every status and time there may be."""

from dataclasses import replace
from random import Random

import numpy as np

from latencytrace.analysis.columns import reported
from latencytrace.model import Repair, RepairKind, RequestStatus
from latencytrace.model.detail import TraceDetail
from latencytrace.service.ledger_table import LedgerTable
from tests.support.simulation.by_columns import ByColumns
from tests.support.simulation.made_traces import made_trace

MS = 1_000_000


def made_table(seed: int, traces: int = 12) -> LedgerTable:
    """The requests of some traces; what decides of metrics and objectives is made up."""
    random = Random(seed)
    spans = {f"{number:032x}": made_trace(random, number) for number in range(1, traces + 1)}
    table, _ = ByColumns().table(spans)
    roots = [
        table.roots[root]._replace(
            status=random.choice([RequestStatus.OK, *RequestStatus]),
            service=random.choice(("rag", "rag", "vectors")),
            route=random.choice(("POST /chat", "GET /health", "GET /" + 300 * "x")),
            version=random.choice((None, "1.0", "2.0")),
            health=random.random() < 0.1,
            detail=random.choice((TraceDetail.FULL, *TraceDetail)),
        )
        for root in table.root.tolist()
    ]
    known = table.known.copy()
    for column in (reported.FIRST_TOKEN, reported.PER_TOKEN, reported.INPUT, reported.OUTPUT):
        for place in range(len(table)):
            known[place, column] = random.choice((reported.UNKNOWN, random.randrange(3000 * MS)))
    repairs = {
        place: (*found, Repair(kind=RepairKind.ORPHAN, span_id="1", detail=""))
        for place, found in table.repairs.items()
    }
    far_ns = random.choice((10**9, 10**13, 10**16))
    starts_ns = [random.randrange(10**16, 10**16 + far_ns) for _ in roots]
    weights = [random.choice((1, 1, 2, 37, 1000)) for _ in roots]
    made = replace(
        table,
        weight=random.choice((None, np.array(weights, np.int64))),
        root=np.arange(len(roots)),
        roots=roots,
        known=known,
        repairs=repairs,
        start_ns=np.array(starts_ns, np.int64),
        duration_ns=table.duration_ns,
    )
    return LedgerTable.new(made)
