"""`GET /tail`: why the slowest requests of a cohort are slow."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from latencytrace.analysis import weighted
from latencytrace.analysis.tail.groups import (
    LEAST_OTHERS,
    MOST_TAIL,
    TAIL,
    USUAL,
    Selection,
    Split,
)
from latencytrace.analysis.tail.neighbours import Neighbours
from latencytrace.analysis.tail.tail import no_tail, tail_of, tail_of_selection
from latencytrace.model import DurationRange, Request
from latencytrace.model.cohorts.breakdown import Cause, CauseKind, StageExcess, Tail
from latencytrace.model.cohorts.request_columns import (
    Beside,
    DurationBand,
    Durations,
    RequestColumns,
    as_they_are,
)
from latencytrace.model.stage import IN_PARTS, Stage
from latencytrace.model.texts.units import duration, part_of, share
from latencytrace.service.answers.documents import document
from latencytrace.service.answers.load.neighbours import (
    key_of,
    neighbours_document,
    neighbours_of,
    read_whole,
    some_of,
)
from latencytrace.service.answers.sentences.stage_parts import moved_part, part_means
from latencytrace.service.answers.sentences.tail import trait_text
from latencytrace.service.answers.tail_documents import (
    CauseDocument,
    StageExcessDocument,
    TailDocument,
)
from latencytrace.service.cohort import Cohort
from latencytrace.service.store import Store

MOST_READ = 10  # of the tail, and of the usual requests, whose spans of a stage are named
_NO_QUANTILE = 1.0  # beyond which no request is


def tail(
    store: Store, cohort: Cohort, quantile: float, beside: Beside = as_they_are
) -> TailDocument:
    """Compare the requests of a cohort beyond a quantile with those around its median."""
    durations = store.durations(cohort)
    if not len(durations):
        return tail_document(no_tail(quantile))
    split = Split.of(durations, quantile)
    columns = beside(store.cohort_columns(cohort, split.bands(), attributes=True))
    neighbours = neighbours_of(store, columns, split)
    found = tail_of(columns, split, quantile)
    return tail_document(found, neighbours, _grown_part(store, cohort, split, columns, found))


def tail_of_selected(
    store: Store, cohort: Cohort, selection: Selection, beside: Beside = as_they_are
) -> TailDocument:
    """Compare requests that were selected with usual ones of the same time.

    What changed before or after it, a release say, then sets nothing apart. Where fewer than
    `LEAST_OTHERS` came in that time, they are compared with the whole cohort.

    Args:
        cohort: The requests of which some are selected.
        selection: Bounds of duration and time, within those of the cohort.
        beside: Adds what engines reported.
    """
    if selection.is_empty:
        return _beside_others(cohort, selection, _Rows.none(), store, beside)
    together = cohort.model_copy(
        update={"since_ns": selection.since_ns, "until_ns": selection.until_ns}
    )
    selected = _Rows.of(store, together.model_copy(update={"duration": selection.durations}))
    durations = store.durations(together)
    if durations.requests - selected.durations.requests >= LEAST_OTHERS:
        return _beside_others(together, selection, selected, store, beside)
    return _beside_others(cohort, selection, selected, store, beside)


class _Rows(NamedTuple):
    """Selected requests: the durations of all, and the rows of as many as are looked at."""

    durations: Durations
    columns: RequestColumns

    @classmethod
    def of(cls, store: Store, selected: Cohort) -> Self:
        durations = store.durations(selected)
        band = DurationBand(share_ratio=min(1.0, MOST_TAIL / max(len(durations), 1)))
        return cls(durations, store.cohort_columns(selected, [band], attributes=True))

    @classmethod
    def none(cls) -> Self:
        return cls(Durations(ns=np.empty(0, np.int64)), RequestColumns.of([], attributes=True))


def _beside_others(
    cohort: Cohort, selection: Selection, selected: _Rows, store: Store, beside: Beside
) -> TailDocument:
    others = store.durations(cohort).without(selected.durations)
    if not len(others) + len(selected.durations):
        return tail_document(no_tail(_NO_QUANTILE))
    split = Split.without_tail(others)
    is_same_time = (cohort.since_ns, cohort.until_ns) == (selection.since_ns, selection.until_ns)
    bands = selection.outside(split.bands()) if is_same_time else split.bands()
    columns = store.cohort_columns(cohort, bands, attributes=True)
    usual = columns.taken(np.flatnonzero(~selection.holds(columns)), attributes=True)
    every = beside(usual.joined(selected.columns))
    return tail_document(tail_of_selection(every, split, selection, selected.durations))


def _grown_part(
    store: Store, cohort: Cohort, split: Split, columns: RequestColumns, found: Tail
) -> str | None:
    """The part of the stage that grew most which most of its growth is; None: no single one."""
    stage = found.cause.stage if found.cause else None
    if stage is None:
        return None
    if stage in IN_PARTS:
        usual, tail = (
            part_means(store.breakdown(_between(cohort, split, band)), stage)
            for band in (USUAL, TAIL)
        )
    else:
        usual, tail = _some_parts(store, columns, split, stage)
    excess_ns = next(one.excess_ns for one in found.stages if one.stage is stage)
    name = moved_part(usual, tail, excess_ns)
    says_more = stage in IN_PARTS or (name != stage and len({*usual, *tail}) > 1)
    return name if says_more else None


def _some_parts(
    store: Store, columns: RequestColumns, split: Split, stage: Stage
) -> list[dict[str, float]]:
    """The mean time of each span of a stage, by name, in some usual requests and of the tail."""
    places = split.places(columns.duration_ns)
    wanted = [
        some_of(columns, np.flatnonzero(places == band), MOST_READ) for band in (USUAL, TAIL)
    ]
    read = read_whole(store, set.union(*wanted))
    return [_parts_of([one for one in read if key_of(one) in each], stage) for each in wanted]


def _parts_of(requests: Sequence[Request], stage: Stage) -> dict[str, float]:
    number = sum(one.weight for one in requests)
    means_ns: defaultdict[str, float] = defaultdict(float)
    for one in requests:
        for segment in one.segments:
            if segment.stage is stage:
                length_ns = segment.end_ns - segment.start_ns
                means_ns[segment.name] += one.weight * length_ns / number
    return means_ns


def _between(cohort: Cohort, split: Split, band: int) -> Cohort:
    ends_ns = (*split.starts_ns[1:], DurationBand().at_most_ns + 1)
    within = DurationRange(at_least_ns=split.starts_ns[band], at_most_ns=ends_ns[band] - 1)
    return cohort.model_copy(update={"duration": within})


def tail_document(
    found: Tail, beside: Neighbours | None = None, part: str | None = None
) -> TailDocument:
    """A tail as its document.

    Args:
        beside: What others in shared steps cost it.
        part: What most of its cause's stage is, by name.
    """
    excess_ns = found.excess_ns
    return document(
        TailDocument,
        found,
        recorded_requests=weighted.recorded(found.recorded_requests, found.requests),
        stages=[_stage(stage, excess_ns or 0.0) for stage in found.stages],
        cause=_cause(found, found.cause, part) if found.cause else None,
        neighbours=None if beside is None else neighbours_document(beside, excess_ns),
    )


def _stage(found: StageExcess, excess_ns: float) -> StageExcessDocument:
    return document(
        StageExcessDocument,
        found,
        excess_ns=round(found.tail_mean_ns) - round(found.reference_mean_ns),
        excess_share_ratio=found.excess_ns / excess_ns if excess_ns > 0 else None,
    )


def _cause(found: Tail, cause: Cause, part: str | None) -> CauseDocument:
    return {
        "kind": cause.kind,
        "stage": cause.stage,
        "key": cause.trait.key if cause.trait else None,
        "value": cause.trait.value if cause.trait else None,
        "sentence": f"{_heading(cause)}: {'; '.join(_reasons(found, cause, part))}.",
    }


def _heading(cause: Cause) -> str:
    key = cause.trait.key if cause.trait else ""
    match cause.kind:
        case CauseKind.INPUT if key == "output_tokens":
            return "Longer output"
        case CauseKind.INPUT if key == "cached_input_tokens":
            return "Less input cached"
        case CauseKind.STAGE if cause.stage is Stage.UNATTRIBUTED:
            return "More time that no span explains"
        case CauseKind.DEPENDENCY if cause.stage is Stage.NETWORK:
            return "Slower call"  # of a slower service, or of a caller too busy to read the answer
        case CauseKind.STAGE if cause.stage:
            return f"Slower {cause.stage}"
        case kind:
            return _HEADINGS[kind]


_HEADINGS = {
    CauseKind.STAGE: "Slower stage",
    CauseKind.INPUT: "Longer input",
    CauseKind.WAITING: "They waited behind other requests",
    CauseKind.INSTANCE: "One bad instance",
    CauseKind.RUNTIME: "Runtime pause",
    CauseKind.COLD_START: "Cold start",
    CauseKind.DEPENDENCY: "Slower dependency",
}


def _reasons(found: Tail, cause: Cause, part: str | None) -> Iterator[str]:
    if cause.trait:
        trait = cause.trait
        yield (
            f"{share(trait.tail_share_ratio)} of slow requests have "
            f"{trait_text(trait.key, trait.value)}, "
            f"{share(trait.reference_share_ratio)} of typical ones"
        )
    grown = next((stage for stage in found.stages if stage.stage is cause.stage), None)
    if grown and found.excess_ns:
        yield (
            f"{grown.stage} takes {duration(grown.tail_mean_ns)} instead of "
            f"{duration(grown.reference_mean_ns)}, {part_of(grown.excess_ns / found.excess_ns)} "
            f"of the extra time{f', most of it in {part}' if part else ''}"
        )
