"""Requests as objects: about 1 µs of CPU for each of their spans."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from latencytrace.analysis.columns import reported
from latencytrace.analysis.columns.request_table import RequestTable
from latencytrace.model import FirstTokenOf, Ledger, Request, Segment
from latencytrace.model.from_columns import from_columns
from latencytrace.model.request import ledger_of
from latencytrace.model.stage import STAGES

FIRST_TOKEN_OF: Final = {
    reported.OF_CALLER: FirstTokenOf.CALLER,
    reported.OF_MODEL: FirstTokenOf.MODEL,
}
_DIGITS = 16  # of a span's id


def requests_of(
    table: RequestTable, revisions: Mapping[tuple[str, str], int] | None = None
) -> list[Request]:
    """The requests of a table, in order.

    Args:
        revisions: The highest revision written so far, by trace id and request span id.
    """
    segments, first = _segments(table), table.segment_first.tolist()
    return [
        _one(table, place, tuple(segments[first[place] : first[place + 1]]), revisions or {})
        for place in range(len(table))
    ]


def _one(
    table: RequestTable,
    place: int,
    segments: tuple[Segment, ...],
    revisions: Mapping[tuple[str, str], int],
) -> Request:
    known = [None if one == reported.UNKNOWN else one for one in table.known[place].tolist()]
    root = table.roots[table.root[place]]
    trace_id, span_id = table.trace_ids[place], f"{int(table.span_id[place]):016x}"
    first_of, cold_start = known[reported.FIRST_TOKEN_OF], known[reported.COLD_START]
    return Request(
        trace_id=trace_id,
        span_id=span_id,
        outermost=bool(table.outermost[place]),
        service=root.service,
        instance=root.instance,
        route=root.route,
        model=table.model.values[table.model.codes[place]],
        version=root.version,
        status=root.status,
        start_ns=int(table.start_ns[place]),
        duration_ns=int(table.duration_ns[place]),
        revision=revisions.get((trace_id, span_id), 0) + 1,
        time_to_first_token_ns=known[reported.FIRST_TOKEN],
        time_to_first_token_of=None if first_of is None else FIRST_TOKEN_OF[first_of],
        model_time_to_first_token_ns=known[reported.MODELS_FIRST_TOKEN],
        time_per_output_token_ns=known[reported.PER_TOKEN],
        input_tokens=known[reported.INPUT],
        cached_input_tokens=known[reported.CACHED],
        output_tokens=known[reported.OUTPUT],
        finish_reason=table.finish_reason.values[table.finish_reason.codes[place]],
        batch_size=known[reported.BATCH_SIZE],
        queue_depth=known[reported.QUEUE_DEPTH],
        concurrency=known[reported.CONCURRENCY],
        preemptions=known[reported.REQUEST_PREEMPTIONS],
        cold_start=None if cold_start is None else bool(cold_start),
        startup=bool(table.startup[place]),
        health=root.health,
        detail=root.detail,
        weight=1 if table.weight is None else int(table.weight[place]),
        ledger=ledger_of(segments),
        segments=segments,
        after={} if table.after is None else _by_stage(table.after[place].tolist()),
        repairs=table.repairs.get(place, ()),
        attributes=table.attributes(place),
        attributes_left_out=int(table.attributes_left_out[place]),
        metric_attributes=table.metrics[table.metric[place]],
    )


def _by_stage(times_ns: Sequence[int]) -> Ledger:
    return {stage: time_ns for stage, time_ns in zip(STAGES, times_ns, strict=True) if time_ns}


def _segments(table: RequestTable) -> list[Segment]:
    ids = table.segment_span_id.astype(">u8").tobytes().hex()
    ends_ns = table.segment_end_ns
    starts_ns = np.roll(ends_ns, 1)
    starts_ns[table.segment_first[:-1][np.diff(table.segment_first) > 0]] = 0
    return from_columns(
        Segment,
        len(ends_ns),
        start_ns=starts_ns.tolist(),
        end_ns=ends_ns.tolist(),
        stage=map(STAGES.__getitem__, table.segment_stage.tolist()),
        span_id=[ids[at : at + _DIGITS] for at in range(0, len(ids), _DIGITS)],
        name=map(table.segment_name.values.__getitem__, table.segment_name.codes.tolist()),
    )
