"""`GET /whatif`: a cohort as if one of its stages were faster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from latencytrace.analysis import weighted
from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.repairs.implausible import as_believed
from latencytrace.analysis.whatif import (
    MOST_SPANS,
    Change,
    Replayed,
    back_test,
    forecast,
    quantiles,
    replayed_segments,
    replayed_spans,
)
from latencytrace.errors import QuestionError
from latencytrace.model import Request, Span, Stage, Trace
from latencytrace.model.cohorts.request_columns import DurationBand, Durations, RequestColumns
from latencytrace.service.answers.compare_documents import ForecastsDocument, WhatifDocument
from latencytrace.service.cohort import Cohort
from latencytrace.service.store import Store

MOST_REPLAYED = 200  # requests up to the quantile below, and as many beyond
TAIL = 0.95
MOST_TESTED = 20_000  # requests of the back-test
_Key = tuple[str, int, int]
UNCHANGED_NS = 1.0  # replays of what does not change are exact but for rounding


def change_of(stage: str, faster: float | None, at_most_ms: float | None) -> Change:
    """Read what shall change.

    Raises:
        QuestionError: No stage is called so, or not exactly one of the two is said.
    """
    if stage not in set(Stage):
        raise QuestionError(f"stage {stage!r} is not known: use {', '.join(Stage)}")
    if (faster is None) == (at_most_ms is None):
        raise QuestionError("say either faster, as faster=0.5 for half the time, or at_most_ms")
    if at_most_ms is not None:
        return Change(stage=Stage(stage), at_most_ns=round(at_most_ms * 1e6))
    return Change(stage=Stage(stage), faster_ratio=faster or 0.0)


def whatif(store: Store, cohort: Cohort, change: Change) -> WhatifDocument:
    """`GET /whatif`."""
    durations = store.durations(cohort)
    chosen = _chosen(store, cohort, durations)
    sample, by_spans, having, gained_ratio = _replayed(store, chosen, change)
    share = min(1.0, MOST_TESTED / max(len(durations), 1))
    tested = store.cohort_columns(cohort, [DurationBand(share_ratio=share)])
    return {
        "requests": durations.requests,
        "recorded_requests": weighted.recorded(len(durations), durations.requests),
        "stage": change.stage,
        "stage_requests": having,
        "replayed_requests": len(sample),
        "replayed_spans": by_spans,
        "duration_ns": _forecasts(durations, sample) if sample else None,
        "error_ratio": back_test(tested, change.stage, gained_ratio) if sample else None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """A request that is replayed, and how many of the cohort it stands for."""

    request: Request
    weight: float


def _forecasts(durations: Durations, sample: Sequence[Replayed]) -> ForecastsDocument:
    pairs = zip(quantiles(durations), forecast(durations, sample), strict=True)
    p50, p95, p99 = ({"now": round(float(now)), "then": round(then)} for now, then in pairs)
    return {"p50": p50, "p95": p95, "p99": p99}  # type: ignore[typeddict-item] # of ints


def _chosen(store: Store, cohort: Cohort, durations: Durations) -> list[_Chosen]:
    """Some of the requests below a high quantile, and some of those beyond it."""
    if not len(durations):
        return []
    edge_ns = int(weighted.quantiles(durations.ns, TAIL, durations.weight))
    in_tail = durations.ns > edge_ns
    parts: list[tuple[int, list[_Key]]] = []
    for within, band in (
        (~in_tail, DurationBand(at_most_ns=edge_ns)),
        (in_tail, DurationBand(at_least_ns=edge_ns + 1)),
    ):
        rows = int(np.count_nonzero(within))
        number = weighted.number(rows, weighted.of(within, durations.weight))
        wanted = replace(band, share_ratio=min(1.0, MOST_REPLAYED / max(rows, 1)))
        parts.append((number, _keys(store.cohort_columns(cohort, [wanted]))))
    # All at once: a question costs more than what it finds.
    found = store.requests_of({trace_id for _, keys in parts for trace_id, *_ in keys})
    by_key = {(one.trace_id, one.start_ns, one.duration_ns): one for one in found}
    chosen: list[_Chosen] = []
    for number, keys in parts:
        requests = [by_key[key] for key in keys if key in by_key]
        each = number / max(sum(one.weight for one in requests), 1)
        chosen += [_Chosen(request=one, weight=each * one.weight) for one in requests]
    return chosen


def _keys(columns: RequestColumns) -> list[_Key]:
    """The trace id, the start and the duration of each of these rows, in order."""
    return sorted(
        {
            (columns.trace_id_of(row), int(columns.start_ns[row]), int(columns.duration_ns[row]))
            for row in range(len(columns))
        }
    )


def _replayed(
    store: Store, chosen: Sequence[_Chosen], change: Change
) -> tuple[list[Replayed], int, int, float]:
    """Replay requests.

    Returns:
        Them; how many by their spans; how many have the stage; and how much of what the stage
        loses on the critical path a request gains.
    """
    spans = store.spans_of({one.request.trace_id for one in chosen})
    by_spans = having = 0
    gained_ns = lost_ns = 0.0
    sample = []
    for one in chosen:
        request = one.request
        by_segments_ns = replayed_segments(request.segments, change)
        replayed_ns = by_segments_ns
        tree = kept_tree(spans, request)
        if tree is not None:
            by_spans += 1
            replayed_ns = request.duration_ns - _gained_ns(tree, change)
            gained_ns += one.weight * (request.duration_ns - replayed_ns)
            lost_ns += one.weight * (request.duration_ns - by_segments_ns)
        having += request.ledger.get(change.stage, 0) > 0
        sample.append(
            Replayed(duration_ns=request.duration_ns, replayed_ns=replayed_ns, weight=one.weight)
        )
    return sample, by_spans, having, gained_ns / lost_ns if lost_ns > UNCHANGED_NS else 1.0


def _gained_ns(tree: Trace, change: Change) -> float:
    return tree.root.end_ns - tree.root.start_ns - replayed_spans(tree, change)


def kept_tree(spans: Mapping[str, tuple[Span, ...]], request: Request) -> Trace | None:
    """The tree of a request; None: its spans are not kept, or too many."""
    kept = spans.get(request.trace_id, ())
    if not 0 < len(kept) <= MOST_SPANS:
        return None
    found: Iterator[Trace] = iter(
        build_traces(kept, rootless=True, plausible=as_believed(request))
    )
    return next(
        (
            trace
            for trace in found
            if trace.root.span_id == request.span_id
            and trace.root.end_ns - trace.root.start_ns == request.duration_ns
        ),
        None,
    )
