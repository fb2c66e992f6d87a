"""Requests of a cohort, and what a breakdown and a table make of them."""

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from statistics import fmean

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pydantic import TypeAdapter

from latencytrace.model import (
    Breakdown,
    FirstTokenOf,
    Quantiles,
    Request,
    Stage,
    StageBreakdown,
    StagePart,
    TokenRange,
)
from latencytrace.model.request_columns import DurationBand
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql.ledger_table import NAMES
from latencytrace.service.sql.questions import MOST_PARTS

REQUEST = TypeAdapter(Request)
STAGE_COLUMNS = {f"{stage}_ns": stage for stage in Stage}


def is_in(request: Request, cohort: Cohort) -> bool:
    """Say whether a request is one of a cohort's, whatever its attributes."""
    labels = (
        (cohort.service, request.service),
        (cohort.route, request.route),
        (cohort.model, request.model),
        (cohort.version, request.version),
        (cohort.instance, request.instance),
        (cohort.status, request.status),
    )
    return (
        all(wanted in (None, has) for wanted, has in labels)
        and (cohort.service is not None or request.outermost)
        and _holds(cohort.input_tokens, request.input_tokens)
        and _holds(cohort.output_tokens, request.output_tokens)
        and (cohort.since_ns is None or request.start_ns >= cohort.since_ns)
        and (cohort.until_ns is None or request.start_ns < cohort.until_ns)
    )


def has_attributes(request: Request, cohort: Cohort) -> bool:
    """Say whether it has those that the cohort names."""
    return set(cohort.where) <= set(request.attributes)


def counts(request: Request, cohort: Cohort) -> bool:
    """Say whether it counts: probes and starts do only where their route is named."""
    return cohort.route is not None or request.counts


def is_within(request: Request, band: DurationBand) -> bool:
    """Say whether it took so long, and is one of the share that is read."""
    digest = blake2b(request.trace_id.encode(), digest_size=8).digest()
    return (
        band.at_least_ns <= request.duration_ns <= band.at_most_ns
        and int.from_bytes(digest) <= band.share_ratio * 2**64
    )


def breakdown(cohort: Cohort, requests: Sequence[Request]) -> Breakdown:
    """Break a cohort down; `requests` are in it, whatever their attributes."""
    sure = [one for one in requests if has_attributes(one, cohort)]
    found = [one for one in sure if counts(one, cohort)]
    stages = tuple(_stages(found))
    paces = [one.time_per_output_token_ns for one in found if one.time_per_output_token_ns]
    starts = [one for one in sure if one.startup and not counts(one, cohort)]
    return Breakdown(
        requests=len(found),
        attributed_ratio=sum(one.share_ratio for one in stages if one.stage.explains)
        if found
        else None,
        duration_ns=_quantiles(one.duration_ns for one in found),
        time_to_first_token_ns=_quantiles(one.time_to_first_token_ns for one in found),
        first_tokens_of_model=sum(
            one.time_to_first_token_of is FirstTokenOf.MODEL for one in found
        ),
        time_per_output_token_ns=_quantiles(one.time_per_output_token_ns for one in found),
        output_tokens_per_second=fmean(1e9 / pace for pace in paces) if paces else None,
        stages=stages,
        health_left_out=len(sure) - len(found) - len(starts),
        startup_left_out=len(starts),
        reduced_detail_left_out=0,
        unsure_left_out=sum(
            counts(one, cohort) and one.attributes_left_out > 0
            for one in requests
            if not has_attributes(one, cohort)
        ),
        max_concurrency=_max_concurrency(found) if found else None,
    )


def csv_table(requests: Iterable[Request]) -> bytes:
    """Write a row a request; unknown is empty."""
    text = io.StringIO()
    rows = csv.DictWriter(text, NAMES)
    rows.writeheader()
    for request in requests:
        seconds, ns = divmod(request.start_ns, 10**9)
        start = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09d}Z"
        rows.writerow({**_row(request), "start": start})
    return text.getvalue().encode()


def parquet_table(requests: Iterable[Request]) -> bytes:
    """Write the same with types."""
    rows = list(map(_row, requests))
    columns = {name: pa.array([row[name] for row in rows]) for name in NAMES}
    columns["start"] = columns["start"].cast(pa.timestamp("ns", "UTC"))
    file = io.BytesIO()
    parquet.write_table(pa.table(columns), file)
    return file.getvalue()


def _row(request: Request) -> dict[str, object]:
    document: dict[str, object] = REQUEST.dump_python(request, mode="json")
    stages = {name: request.ledger.get(stage, 0) for name, stage in STAGE_COLUMNS.items()}
    return {
        **{name: document[name] for name in NAMES if name in document},
        "start": request.start_ns,
        **stages,
    }


def _holds(wanted: TokenRange | None, tokens: int | None) -> bool:
    if wanted is None or wanted == TokenRange():
        return True
    least, most = wanted.at_least, wanted.at_most
    return (
        tokens is not None
        and (least is None or tokens >= least)
        and (most is None or tokens <= most)
    )


def _quantiles(values: Iterable[int | None]) -> Quantiles | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    p50, p90, p95, p99, p999 = map(float, np.quantile(known, (0.5, 0.9, 0.95, 0.99, 0.999)))
    return Quantiles(mean=fmean(known), p50=p50, p90=p90, p95=p95, p99=p99, p999=p999)


def _stages(requests: Sequence[Request]) -> Iterable[StageBreakdown]:
    duration_ns = sum(one.duration_ns for one in requests)
    for stage in Stage:
        lengths = [one.ledger[stage] for one in requests if one.ledger.get(stage)]
        if not lengths:
            continue
        p50, p95, p99 = map(float, np.quantile(lengths, (0.5, 0.95, 0.99)))
        whole = StageBreakdown(
            stage=stage,
            mean_ns=sum(lengths) / len(requests),
            share_ratio=sum(lengths) / duration_ns,
            p50_ns=p50,
            p95_ns=p95,
            p99_ns=p99,
            requests=len(lengths),
        )
        is_runtime = stage is Stage.RUNTIME
        yield replace(whole, parts=tuple(_parts(requests, duration_ns))) if is_runtime else whole


def _parts(requests: Collection[Request], duration_ns: int) -> Iterable[StagePart]:
    """What the process itself did, the longest first."""
    total_ns: Counter[str] = Counter()
    having: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for request in requests:
        for segment in request.segments:
            if segment.stage is Stage.RUNTIME:
                total_ns[segment.name] += segment.end_ns - segment.start_ns
                having[segment.name].add((request.trace_id, request.span_id))
    longest = sorted(total_ns, key=lambda name: (-total_ns[name], name))[:MOST_PARTS]
    for name in longest:
        yield StagePart(
            name=name,
            mean_ns=total_ns[name] / len(requests),
            share_ratio=total_ns[name] / duration_ns,
            requests=len(having[name]),
        )


def _max_concurrency(requests: Iterable[Request]) -> int:
    """The most at once; of two that touch, the first has ended."""
    moments = [(one.start_ns, 1) for one in requests]
    moments += [(one.start_ns + one.duration_ns, -1) for one in requests]
    under_way = most = 0
    for _, change in sorted(moments):
        under_way += change
        most = max(most, under_way)
    return most
