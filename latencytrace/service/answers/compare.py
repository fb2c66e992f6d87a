"""Documents of comparisons: two cohorts, each a query, a baseline or columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import parse_qsl

import numpy as np

from latencytrace.analysis import weighted
from latencytrace.analysis.compare.comparison import (
    TESTED,
    Comparison,
    StageComparison,
    compare,
)
from latencytrace.analysis.compare.matching import FAILED
from latencytrace.analysis.compare.shifts import Shift
from latencytrace.analysis.compare.verdict import Verdict
from latencytrace.errors import QuestionError
from latencytrace.model.cohorts.request_columns import (
    STAGES,
    Beside,
    DurationBand,
    KnownNumbers,
    RequestColumns,
    as_they_are,
)
from latencytrace.model.stage import IN_PARTS, Stage
from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.compare_documents import (
    BaselineDocument,
    BaselinesDocument,
    CircumstancesDocument,
    CompareDocument,
    ComparedStageDocument,
    DecileDocument,
    EngineCircumstancesDocument,
    PlainQuantilesDocument,
    ShiftDocument,
    ShiftsDocument,
    SideDocument,
    SpellDocument,
)
from latencytrace.service.answers.documents import document
from latencytrace.service.answers.sentences.stage_parts import moved_part, part_means
from latencytrace.service.cohort import REPEATED, Cohort, CohortQuery
from latencytrace.service.storage.baselines import Baseline, Baselines
from latencytrace.service.store import Store, TableFormat

MOST_COMPARED = 100_000  # requests a side; more would change no verdict
BASELINE = "baseline:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One side of a comparison."""

    requests: int  # of the cohort
    recorded: int  # of those
    columns: RequestColumns  # of all of these, or of a share
    # The mean time of each named part of a stage; None: that is not known.
    part_means: Callable[[Stage], Mapping[str, float]] | None = None


def comparison(
    store: Store,
    baselines: Baselines,
    sides: tuple[str, str],
    at_least_ratio: float,
    now_ns: int,
    beside: Beside = as_they_are,
) -> CompareDocument:
    """`GET /compare`.

    Raises:
        QuestionError: A side cannot be understood.
        NotFoundError: No baseline has that name.
    """
    a, b = (_compared(store, baselines, written, now_ns, beside) for written in sides)
    return comparison_document(a, b, at_least_ratio)


def named(side: str) -> str:
    """Return a side of a comparison.

    Raises:
        QuestionError: The side is empty.
    """
    if not side.strip():
        raise QuestionError("a side is empty: say which requests, as version=1.2&since=1h")
    return side


def cohort_written(written: str, now_ns: int) -> Cohort:
    """Read a cohort written as a query: `version=1.2&since=1h`.

    Raises:
        QuestionError: It is none; the message says which part is not.
    """
    try:
        pairs = parse_qsl(written, keep_blank_values=True, strict_parsing=True) if written else []
    except ValueError:
        raise QuestionError(
            f"{written!r} is no cohort: write KEY=VALUE&KEY=VALUE, as version=1.2&since=1h, "
            f"or {BASELINE}NAME"
        ) from None
    asked: dict[str, str | list[str]] = {}
    for name, value in pairs:
        if name not in CohortQuery.model_fields:
            known = ", ".join(CohortQuery.model_fields)
            raise QuestionError(f"{name!r} is no filter of requests: use {known}")
        if name in REPEATED:
            asked[name] = [*asked.get(name, []), value]
        elif name in asked:
            raise QuestionError(f"{name} is named twice in {written!r}")
        else:
            asked[name] = value
    return CohortQuery.model_validate(asked).cohort(now_ns)


def save_baseline(
    store: Store, baselines: Baselines, name: str, written: str, now_ns: int
) -> BaselineDocument:
    """`PUT /baselines/{name}`: keep the requests of a cohort to compare others with.

    Raises:
        QuestionError: The name or the cohort cannot be used, or there is no room.
    """
    baselines.check(name)
    cohort = cohort_written(written, now_ns)
    requests = store.durations(cohort).requests
    if not requests:
        raise QuestionError(f"no request is in {written!r}: there is nothing to save")
    table = answers.ledgers(store, cohort, TableFormat.PARQUET)
    breakdown = store.breakdown(cohort)
    about = Baseline(
        name=name,
        cohort=written,
        requests=requests,
        saved_ns=now_ns,
        parts={str(stage): part_means(breakdown, stage) for stage in IN_PARTS},
    )
    return baseline_document(baselines.keep(about, table))


def saved_baselines(baselines: Baselines) -> BaselinesDocument:
    """`GET /baselines`."""
    return {"baselines": [baseline_document(one) for one in baselines.all()]}


def baseline_document(found: Baseline) -> BaselineDocument:
    return document(BaselineDocument, found, bytes=found.size_bytes)


def compared_table(body: bytes, table_format: TableFormat) -> Compared:
    """A side that was exported.

    Raises:
        QuestionError: The file is not a table of ledgers.
    """
    # It needs pyarrow, which is heavy, and rarely asked for.
    from latencytrace.service.answers.exported import columns_of  # noqa: PLC0415

    columns = columns_of(body, table_format)
    requests = weighted.number(len(columns), columns.weight)
    return Compared(requests=requests, recorded=len(columns), columns=columns)


def _compared(
    store: Store, baselines: Baselines, written: str, now_ns: int, beside: Beside
) -> Compared:
    if named(written).startswith(BASELINE):
        name = written.removeprefix(BASELINE)
        saved = compared_table(baselines.table(name), TableFormat.PARQUET)
        parts = baselines.part_means(name)
        return saved if parts is None else replace(saved, part_means=lambda stage: parts[stage])
    cohort = cohort_written(written, now_ns)
    durations = store.durations(cohort)
    share = min(1.0, MOST_COMPARED / max(len(durations), 1))
    columns = store.cohort_columns(cohort, [DurationBand(share_ratio=share)])
    return Compared(
        requests=durations.requests,
        recorded=len(durations),
        columns=beside(columns),
        part_means=lambda stage: part_means(store.breakdown(cohort), stage),
    )


def comparison_document(a: Compared, b: Compared, at_least_ratio: float) -> CompareDocument:
    """Compare two sides, and say what came of it."""
    found = compare(a.columns, b.columns, at_least_ratio=at_least_ratio)
    return document(
        CompareDocument,
        found,
        a=_side(a),
        b=_side(b),
        wait_ns=_wait_ns(found, b),
        overlap_ratio=round(found.overlap_ratio, 3),
        at_least_ratio=at_least_ratio,
        spells=[[document(SpellDocument, one) for one in side] for side in found.spells],
        duration_ns=_tested(found.shifts) if found.shifts else None,
        deciles=_deciles(found),
        stages=[_stage(stage, _part(stage, a, b)) for stage in found.stages],
    )


def _wait_ns(found: Comparison, side: Compared) -> int | None:
    """How long until a side has as many requests as it takes; None: that is not known."""
    start_ns = side.columns.start_ns
    length_ns = int(start_ns[-1] - start_ns[0]) if len(start_ns) else 0
    if found.needed_requests is None or not length_ns:
        return None
    slow_ratio = sum(one.share_ratio for one in found.spells[1])
    lacking = found.needed_requests - side.requests * (1 - slow_ratio)
    return round(lacking / side.requests * length_ns) if lacking > 0 else None


def _side(side: Compared) -> SideDocument:
    status, weight = side.columns.status, side.columns.weight
    names = [place for place, name in enumerate(status.names) if name in FAILED]
    failed, count = np.isin(status.number, names), len(side.columns)
    return {
        "requests": side.requests,
        "recorded_requests": weighted.recorded(side.recorded, side.requests),
        "compared_requests": count,
        "failed_ratio": float(weighted.mean(failed, weight)) if count else None,
        "duration_ns": _plain(side.columns) if count else None,
        "circumstances": _circumstances(side.columns),
    }


def _circumstances(columns: RequestColumns) -> CircumstancesDocument:
    mean = partial(_mean, weight=columns.weight)
    return {
        "input_tokens": mean(columns.input_tokens),
        "cached_input_ratio": _cached_ratio(columns),
        "output_tokens": mean(columns.output_tokens),
        "batch_size": mean(columns.batch_size),
        "queue_depth": mean(columns.queue_depth),
        "concurrency": mean(columns.concurrency),
        "preemptions": mean(columns.preemptions),
        "cold_start_ratio": _cold_ratio(columns),
        **_of_engines(columns),
    }


def _of_engines(columns: RequestColumns) -> EngineCircumstancesDocument:
    means = {name: _mean(each, columns.weight) for name, each in columns.engine.items()}

    def ratio(name: str) -> float | None:
        percent = means.get(name)
        return None if percent is None else percent / 100

    return {
        "engine_waiting_requests": means.get("engine_waiting_requests"),
        "engine_running_requests": means.get("engine_running_requests"),
        "engine_batch_size": means.get("engine_batch_size"),
        "engine_preemptions": means.get("engine_preemptions"),
        "engine_kv_cache_use_ratio": ratio("engine_kv_cache_use_percent"),
        "engine_prefix_cache_hit_ratio": ratio("engine_prefix_cache_hit_percent"),
        "engine_speculative_acceptance_ratio": ratio("engine_speculative_acceptance_percent"),
    }


def _mean(numbers: KnownNumbers, weight: weighted.Weight) -> float | None:
    known = numbers.known
    if not known.any():
        return None
    return float(weighted.mean(numbers.value[known], weighted.of(known, weight)))


def _cached_ratio(columns: RequestColumns) -> float | None:
    """The share of the input that came out of a cache, by token."""
    known = columns.cached_input_tokens.known & columns.input_tokens.known
    weights = columns.weights()[known].astype(np.float64)  # 64 bits do not hold every sum
    brought = float(columns.input_tokens.value[known] @ weights)
    return float(columns.cached_input_tokens.value[known] @ weights) / brought if brought else None


def _cold_ratio(columns: RequestColumns) -> float | None:
    """The share of cold starts; None: of no request it is known that it had none."""
    cold = columns.cold_start
    is_known = bool(cold.known.all() or (cold.known & (cold.value == 0)).any())
    return _mean(cold, columns.weight) if is_known else None


def _plain(columns: RequestColumns) -> PlainQuantilesDocument:
    found = weighted.quantiles(columns.duration_ns, TESTED, columns.weight)
    p50, p95, p99 = (round(float(one)) for one in found)
    return {"p50": p50, "p95": p95, "p99": p99}


def _tested(shifts: Sequence[Shift]) -> ShiftsDocument:
    p50, p95, p99 = (
        _shift(next(shift for shift in shifts if shift.level == level)) for level in TESTED
    )
    return {"p50": p50, "p95": p95, "p99": p99}


def _shift(shift: Shift) -> ShiftDocument:
    return document(ShiftDocument, shift, shift=round(shift.b_ns) - round(shift.a_ns))


def _deciles(found: Comparison) -> list[DecileDocument]:
    return [
        document(DecileDocument, shift, quantile=shift.level, shift=_shift(shift)["shift"])
        for shift in found.shifts
        if shift.level <= 0.9  # noqa: PLR2004 - the ninth decile
    ]


def _stage(stage: StageComparison, part: str | None) -> ComparedStageDocument:
    shifts = _tested(stage.shifts)
    return {"stage": stage.stage, "verdict": stage.verdict, "part": part, **shifts}


def _part(found: StageComparison, a: Compared, b: Compared) -> str | None:
    """The named part of a stage which most of its proven shift is; None: no single one."""
    stage, is_proven = found.stage, found.verdict in {Verdict.REGRESSION, Verdict.IMPROVEMENT}
    if not is_proven or stage not in IN_PARTS or a.part_means is None or b.part_means is None:
        return None
    place = STAGES.index(stage)
    before_ns, after_ns = (
        float(weighted.mean(side.columns.stages_ns[:, place], side.columns.weight))
        for side in (a, b)
    )
    return moved_part(a.part_means(stage), b.part_means(stage), after_ns - before_ns)
