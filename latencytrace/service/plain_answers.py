"""Answers about a cohort, made of its requests one by one: for stores without a faster way.

The SQL of the embedded store is held to it.
"""

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, replace
from datetime import UTC, datetime
from hashlib import blake2b
from math import floor, log2
from operator import itemgetter
from statistics import fmean
from typing import Final

import numpy as np

from latencytrace.analysis import weighted
from latencytrace.model import (
    Breakdown,
    DurationRange,
    FirstTokenOf,
    Quantiles,
    Request,
    RequestStatus,
    Stage,
    StageBreakdown,
    StagePart,
    TokenRange,
)
from latencytrace.model.cohorts.breakdown import WorkAfter
from latencytrace.model.cohorts.overview import (
    FINE_ROWS,
    ROWS_PER_DOUBLING,
    Group,
    Groups,
    HeatCell,
    Overview,
    RouteBreakdowns,
    RouteSummary,
    StageColumn,
    Summary,
    SummaryFields,
    TimeColumn,
    p99_of_rows_ns,
)
from latencytrace.model.cohorts.request_columns import STAGES, DurationBand, RequestColumns
from latencytrace.model.detail import TraceDetail
from latencytrace.model.stage import IN_PARTS
from latencytrace.service.cohort import FAILED, LABELS, Cohort

FORMULA: Final = re.compile(r"'*[=+@\t\r-]")  # how a cell begins that spreadsheets run
MOST_KEYS: Final = 1_000  # of attributes that are listed
MOST_PARTS: Final = 8  # of a stage; senders name them
STAGE_COLUMNS: Final = {f"{stage}_ns": stage for stage in Stage}
TABLE_COLUMNS: Final = (
    "trace_id", "span_id", "service", "instance", "version", "route", "model", "status", "start",
    "duration_ns", "time_to_first_token_ns", "time_to_first_token_of",
    "model_time_to_first_token_ns", "time_per_output_token_ns", "input_tokens",
    "cached_input_tokens", "output_tokens", "finish_reason", "batch_size", "queue_depth",
    "concurrency", "preemptions", "cold_start", "after_ns", "revision", "weight", *STAGE_COLUMNS,
)  # fmt: skip


def is_in(request: Request, cohort: Cohort) -> bool:
    """Say whether a request is one of a cohort's, whatever its attributes."""
    labels = (
        (getattr(cohort, name), getattr(request, name))
        for name in ("service", "route", "model", "version", "instance", "detail")
    )
    return (
        all(wanted in (None, has) for wanted, has in labels)
        and _ended(cohort.status, request.status)
        and (cohort.service is not None or request.outermost)
        and _holds(cohort.duration, request.duration_ns)
        and _holds(cohort.first_token, request.time_to_first_token_ns)
        and _holds(cohort.after, request.after_ns)
        and _holds(cohort.input_tokens, request.input_tokens)
        and _holds(cohort.output_tokens, request.output_tokens)
        and (cohort.since_ns is None or request.start_ns >= cohort.since_ns)
        and (cohort.until_ns is None or request.start_ns < cohort.until_ns)
        and not any(_has(request, key, value) for key, value in cohort.without)
    )


def _has(request: Request, key: str, value: str) -> bool:
    """Say whether it has a label, or an attribute on any span."""
    if key in LABELS:
        return value_of(request, key) == value
    return (key, value) in request.attributes


def has_attributes(request: Request, cohort: Cohort) -> bool:
    return set(cohort.where) <= set(request.attributes)


def counts(request: Request, cohort: Cohort) -> bool:
    """Say whether it counts: probes and starts do only where their route is named."""
    return cohort.route is not None or request.counts


def has_stages(request: Request, cohort: Cohort) -> bool:
    """Say whether it tells what it spent its time on, or was asked for."""
    return cohort.detail is not None or request.detail.has_stages


def counted(cohort: Cohort, requests: Iterable[Request]) -> list[Request]:
    return [
        one
        for one in requests
        if is_in(one, cohort) and has_attributes(one, cohort) and counts(one, cohort)
    ]


def is_within(request: Request, band: DurationBand) -> bool:
    """Say whether it took so long, and is one of the share that is read."""
    digest = blake2b(request.trace_id.encode(), digest_size=8).digest()
    return (
        band.at_least_ns <= request.duration_ns <= band.at_most_ns
        and int.from_bytes(digest) <= band.share_ratio * 2**64
    )


def stage_means(columns: RequestColumns) -> dict[Stage, float]:
    """The mean time of each stage that has some."""
    if not len(columns):
        return {}
    means_ns = weighted.mean(columns.stages_ns, columns.weight).tolist()
    return {stage: mean_ns for stage, mean_ns in zip(STAGES, means_ns, strict=True) if mean_ns}


def breakdown(cohort: Cohort, requests: Iterable[Request]) -> Breakdown:
    """Break down those of some requests that are in a cohort."""
    requests = [one for one in requests if is_in(one, cohort)]
    sure = [one for one in requests if has_attributes(one, cohort)]
    counting = [one for one in sure if counts(one, cohort)]
    found = [one for one in counting if has_stages(one, cohort)]
    stages = tuple(_stages(found))
    starts = [one for one in sure if one.startup and not counts(one, cohort)]
    return Breakdown(
        requests=_number(found),
        attributed_ratio=sum(one.share_ratio for one in stages if one.stage.explains)
        if found
        else None,
        duration_ns=_quantiles(found, lambda one: one.duration_ns),
        time_to_first_token_ns=_quantiles(found, lambda one: one.time_to_first_token_ns),
        first_tokens_of_model=_of_model(found),
        time_per_output_token_ns=_quantiles(found, lambda one: one.time_per_output_token_ns),
        output_tokens_per_second=_mean_pace(found),
        stages=stages,
        after=_after(found),
        health_left_out=_number(sure) - _number(counting) - _number(starts),
        startup_left_out=_number(starts),
        reduced_detail_left_out=_number(counting) - _number(found),
        reduced_requests=_number(one for one in found if one.detail is not TraceDetail.FULL),
        unsure_left_out=_number(
            one
            for one in requests
            if not has_attributes(one, cohort)
            and counts(one, cohort)
            and has_stages(one, cohort)
            and one.attributes_left_out > 0
        ),
        max_concurrency=_max_concurrency(found) if found else None,
    )


def breakdowns(cohort: Cohort, requests: Iterable[Request], limit: int) -> RouteBreakdowns:
    """Break down each route of some services by itself, longest total time first."""
    by_route: dict[tuple[str, str], list[Request]] = defaultdict(list)
    for one in requests:
        by_route[one.service, one.route].append(one)
    ranked = []
    for (service, route), some in by_route.items():
        found = breakdown(cohort.model_copy(update={"service": cohort.service or service}), some)
        if found.duration_ns is not None:
            total_ns = found.duration_ns.mean * found.requests
            ranked.append((-total_ns, (service, route), found))
    ranked.sort(key=itemgetter(0, 1))
    return RouteBreakdowns(
        routes={route: found for _, route, found in ranked[:limit]}, route_count=len(ranked)
    )


def csv_table(requests: Iterable[Request]) -> bytes:
    """Write a row a request; unknown is empty."""
    text = io.StringIO()
    rows = csv.DictWriter(text, TABLE_COLUMNS)
    rows.writeheader()
    for request in requests:
        seconds, ns = divmod(request.start_ns, 10**9)
        start = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09d}Z"
        row = {name: _as_text(value) for name, value in _row(request).items()}
        rows.writerow({**row, "start": start})
    return text.getvalue().encode()


def _as_text(value: object) -> object:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def parquet_table(requests: Iterable[Request]) -> bytes:
    """Write the same with types."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and rarely asked for
    from pyarrow import parquet  # noqa: PLC0415 - loaded where it is used

    rows = list(map(_row, requests))
    columns = {name: pa.array([row[name] for row in rows]) for name in TABLE_COLUMNS}
    columns["start"] = columns["start"].cast(pa.timestamp("ns", "UTC"))
    file = io.BytesIO()
    parquet.write_table(pa.table(columns), file)
    return file.getvalue()


def _row(request: Request) -> dict[str, object]:
    known = {name: getattr(request, name) for name in TABLE_COLUMNS if hasattr(request, name)}
    stages = {name: request.ledger.get(stage, 0) for name, stage in STAGE_COLUMNS.items()}
    return {**known, "start": request.start_ns, **stages}


def overview(requests: Sequence[Request], since_ns: int, column_ns: int, limit: int) -> Overview:
    """Put the routes of requests side by side, longest total time first."""
    by_route: dict[tuple[str, str], list[Request]] = defaultdict(list)
    for one in requests:
        by_route[one.service, one.route].append(one)
    ranked = sorted(by_route.items(), key=lambda item: (-_total(item[1], "duration_ns"), item[0]))
    return Overview(
        routes=tuple(
            _summary(service, route, found, since_ns, column_ns)
            for (service, route), found in ranked[:limit]
        ),
        route_count=len(ranked),
    )


def heat_map(requests: Iterable[Request], since_ns: int, column_ns: int) -> list[HeatCell]:
    """Count requests by when they started and how long they took."""
    counts: Counter[tuple[int, int]] = Counter()
    for one in requests:
        row = floor(log2(max(one.duration_ns, 1)) * ROWS_PER_DOUBLING)
        counts[(one.start_ns - since_ns) // column_ns, row] += one.weight
    return [
        HeatCell(column=column, row=row, requests=count)
        for (column, row), count in sorted(counts.items())
    ]


def stages_over_time(
    requests: Iterable[Request], since_ns: int, column_ns: int
) -> list[StageColumn]:
    """Break requests down by when they started."""
    columns: dict[int, list[Request]] = defaultdict(list)
    for one in requests:
        columns[(one.start_ns - since_ns) // column_ns].append(one)
    return [
        StageColumn(
            column=column,
            requests=_number(found),
            mean_ns={one.stage: one.mean_ns for one in _stages(found)},
        )
        for column, found in sorted(columns.items())
    ]


def groups(
    requests: Sequence[Request], by: str, since_ns: int, column_ns: int, limit: int
) -> Groups:
    """Put requests side by side by a label or an attribute."""
    by_value: dict[str | None, list[Request]] = defaultdict(list)
    for one in requests:
        by_value[value_of(one, by)].append(one)
    without = by_value.pop(None, [])
    ranked = sorted(by_value.items(), key=lambda item: (-_total(item[1], "duration_ns"), item[0]))
    others = [one for _, found in ranked[limit:] for one in found]
    times = (since_ns, column_ns)
    return Groups(
        groups=tuple(
            Group(value=value or "", **_together(found, *times)) for value, found in ranked[:limit]
        ),
        others=Summary(**_together(others, *times)) if others else None,
        other_values=len(ranked[limit:]),
        without=Summary(**_together(without, *times)) if without else None,
        unsure=0
        if by in LABELS
        else _number(one for one in without if one.attributes_left_out > 0),
    )


def value_of(request: Request, key: str) -> str | None:
    """The value of a label, or the first one of an attribute; None: it has none."""
    if key in LABELS:
        label: str | None = getattr(request, key)
        return None if label is None else str(label)
    return next((value for name, value in request.attributes if name == key), None)


def versions(requests: Iterable[Request]) -> dict[tuple[str, str], int]:
    """When the first request of each version of a service started."""
    found: dict[tuple[str, str], int] = {}
    for one in requests:
        if one.version is not None:
            key = one.service, one.version
            found[key] = min(one.start_ns, found.get(key, one.start_ns))
    return found


def attribute_keys(requests: Iterable[Request]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in requests:
        counts.update(dict.fromkeys((key for key, _ in one.attributes), one.weight))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return dict(ranked[:MOST_KEYS])


def _summary(
    service: str, route: str, requests: Sequence[Request], since_ns: int, column_ns: int
) -> RouteSummary:
    first_token = _quantiles(requests, lambda one: one.time_to_first_token_ns)
    return RouteSummary(
        service=service,
        route=route,
        outermost=_number([one for one in requests if one.outermost]),
        first_token_p50_ns=first_token.p50 if first_token else None,
        first_tokens_of_model=_of_model(requests),
        versions={
            version: min(one.start_ns for one in requests if one.version == version)
            for version in {one.version for one in requests}
            if version
        },
        **_together(requests, since_ns, column_ns),
    )


def _together(requests: Sequence[Request], since_ns: int, column_ns: int) -> SummaryFields:
    """The `Summary` of requests, of which there is at least one."""
    columns: dict[int, list[Request]] = defaultdict(list)
    for one in requests:
        columns[(one.start_ns - since_ns) // column_ns].append(one)
    lasted, weights = zip(*((one.duration_ns, one.weight) for one in requests), strict=True)
    p50_ns, p95_ns, p99_ns = _levels(lasted, weights, (0.5, 0.95, 0.99))
    return {
        "requests": _number(requests),
        "failed": _number(one for one in requests if one.status != "ok"),
        "p50_ns": p50_ns,
        "p95_ns": p95_ns,
        "p99_ns": p99_ns,
        "mean_ns": {one.stage: one.mean_ns for one in _stages(requests)},
        "timeline": tuple(
            TimeColumn(
                column=column,
                requests=_number(found),
                mean_ns=_total(found, "duration_ns") / _number(found),
                p99_ns=p99_of_rows_ns(_fine_rows(found)),
            )
            for column, found in sorted(columns.items())
        ),
    }


def _fine_rows(requests: Iterable[Request]) -> Counter[int]:
    rows: Counter[int] = Counter()
    for one in requests:
        rows[floor(log2(max(one.duration_ns, 1)) * FINE_ROWS)] += one.weight
    return rows


def _of_model(requests: Iterable[Request]) -> int:
    """How many first tokens are the model's."""
    return _number(one for one in requests if one.time_to_first_token_of is FirstTokenOf.MODEL)


def _ended(wanted: str | None, status: RequestStatus) -> bool:
    if wanted == FAILED:
        return status is not RequestStatus.OK
    return wanted in (None, status)


def _holds(wanted: DurationRange | TokenRange | None, number: int | None) -> bool:
    least, most = (None, None) if wanted is None else astuple(wanted)
    if least is None and most is None:
        return True
    return (
        number is not None
        and (least is None or number >= least)
        and (most is None or number <= most)
    )


def _number(requests: Iterable[Request]) -> int:
    """How many requests there are: each as many as its weight says."""
    return sum(one.weight for one in requests)


def _total(requests: Iterable[Request], name: str) -> int:
    """The sum of one of their numbers."""
    return sum(getattr(one, name) * one.weight for one in requests)


def _quantiles(
    requests: Iterable[Request], tell: Callable[[Request], int | None]
) -> Quantiles | None:
    known = [(value, one.weight) for one in requests if (value := tell(one)) is not None]
    if not known:
        return None
    values, weights = zip(*known, strict=True)
    p50, p90, p95, p99, p999 = _levels(values, weights, (0.5, 0.9, 0.95, 0.99, 0.999))
    mean = fmean(values, weights)
    return Quantiles(mean=mean, p50=p50, p90=p90, p95=p95, p99=p99, p999=p999)


def _levels(values: Sequence[int], weights: Sequence[int], levels: Sequence[float]) -> list[float]:
    """Quantiles between two values in proportion; of some with weights, one of the values."""
    if set(weights) == {1}:
        found: list[float] = np.quantile(values, levels).tolist()
        return found
    order = np.argsort(values)
    until = np.cumsum(np.array(weights)[order])
    places = np.searchsorted(until, np.array(levels) * until[-1])
    return [float(values[order[place]]) for place in places.tolist()]


def _mean_pace(requests: Iterable[Request]) -> float | None:
    """The mean of output tokens per second."""
    paced = [
        (1e9 / one.time_per_output_token_ns, one.weight)
        for one in requests
        if one.time_per_output_token_ns
    ]
    return fmean(*zip(*paced, strict=True)) if paced else None


def _stages(requests: Sequence[Request]) -> Iterable[StageBreakdown]:
    duration_ns, number = _total(requests, "duration_ns"), _number(requests)
    for stage in Stage:
        having = [one for one in requests if one.ledger.get(stage)]
        if not having:
            continue
        lengths, weights = [one.ledger[stage] for one in having], [one.weight for one in having]
        total_ns = sum(length * weight for length, weight in zip(lengths, weights, strict=True))
        p50, p95, p99 = _levels(lengths, weights, (0.5, 0.95, 0.99))
        whole = StageBreakdown(
            stage=stage,
            mean_ns=total_ns / number,
            share_ratio=total_ns / duration_ns,
            p50_ns=p50,
            p95_ns=p95,
            p99_ns=p99,
            requests=sum(weights),
        )
        parts = _parts(having, stage, number, duration_ns) if stage in IN_PARTS else ()
        yield replace(whole, parts=tuple(parts))


def _after(requests: Iterable[Request]) -> WorkAfter | None:
    going_on = [one for one in requests if one.after]
    if not going_on:
        return None
    number = _number(going_on)
    lengths, weights = zip(*((one.after_ns, one.weight) for one in going_on), strict=True)
    p50_ns, p95_ns, p99_ns = _levels(lengths, weights, (0.5, 0.95, 0.99))
    total_ns: Counter[Stage] = Counter()
    for one in going_on:
        for stage, length_ns in one.after.items():
            total_ns[stage] += length_ns * one.weight
    return WorkAfter(
        requests=number,
        mean_ns=_total(going_on, "after_ns") / number,
        p50_ns=p50_ns,
        p95_ns=p95_ns,
        p99_ns=p99_ns,
        stages=tuple(
            (stage, total_ns[stage] / number)
            for stage in sorted(total_ns, key=lambda stage: (-total_ns[stage], stage))
        ),
    )


def _parts(
    requests: Iterable[Request], stage: Stage, number: int, duration_ns: int
) -> Iterable[StagePart]:
    """The parts of a stage by name, the longest first."""
    total_ns: Counter[str] = Counter()
    having: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    for request in requests:
        for segment in request.segments:
            if segment.stage is stage:
                total_ns[segment.name] += (segment.end_ns - segment.start_ns) * request.weight
                having[segment.name][request.trace_id, request.span_id] = request.weight
    longest = sorted(total_ns, key=lambda name: (-total_ns[name], name))[:MOST_PARTS]
    for name in longest:
        yield StagePart(
            name=name,
            mean_ns=total_ns[name] / number,
            share_ratio=total_ns[name] / duration_ns,
            requests=sum(having[name].values()),
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
