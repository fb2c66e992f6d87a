"""Limits that requests shall meet, of objectives or of a question."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latencytrace.model import Measure, Objective, Stage
from latencytrace.model.cohorts.request_columns import STAGES, RequestColumns, Words
from latencytrace.model.objective import EACH_ROUTE, NO_LIMIT_NS

Mask = NDArray[np.bool_]
_OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How long a part of some requests may take; None: of any."""

    measure: Measure
    at_most_ns: int  # `NO_LIMIT_NS`: they must not fail
    stage: Stage | None = None  # where one is measured
    service: str | None = None
    route: str | None = None
    model: str | None = None
    version: str | None = None


def limits_of(objectives: Iterable[Objective]) -> tuple[Limit, ...]:
    found = (
        Limit(
            measure=one.measure,
            at_most_ns=one.threshold_ns,
            stage=one.stage,
            service=one.service,
            route=None if one.route == EACH_ROUTE else one.route,
            model=one.model,
            version=one.version,
        )
        for one in objectives
    )
    return tuple(dict.fromkeys(found))


def holding(limits: Sequence[Limit], columns: RequestColumns) -> tuple[Limit, ...]:
    """Those limits that any of these requests has to meet."""
    return tuple(limit for limit in limits if _concerned(limit, columns).any())


def are_good(limits: Sequence[Limit], columns: RequestColumns) -> Mask:
    """(n,): whether requests were served within all limits that are theirs.

    What a request has nothing of, as a time to first token, it cannot take too long for.
    """
    good = _named(columns.status, _OK)
    for limit in limits:
        if limit.at_most_ns != NO_LIMIT_NS:
            good &= ~(_concerned(limit, columns) & (_measured(limit, columns) > limit.at_most_ns))
    return good


def _concerned(limit: Limit, columns: RequestColumns) -> Mask:
    concerned = np.ones(len(columns), np.bool_)
    for name in ("service", "route", "model", "version"):
        wanted = getattr(limit, name)
        if wanted is not None:
            concerned &= _named(getattr(columns, name), wanted)
    return concerned


def _named(words: Words, name: str) -> Mask:
    return np.isin(words.number, [place for place, one in enumerate(words.names) if one == name])


def _measured(limit: Limit, columns: RequestColumns) -> NDArray[np.int64]:
    """Value that is measured; 0 where a request has nothing of it."""
    match limit.measure:
        case Measure.DURATION:
            return columns.duration_ns
        case Measure.UNTIL_IDLE:
            return columns.duration_ns + columns.after_ns.value
        case Measure.TIME_TO_FIRST_TOKEN:
            return columns.time_to_first_token_ns.value
        case Measure.TIME_PER_OUTPUT_TOKEN:
            return columns.time_per_output_token_ns.value
        case Measure.STAGE:
            return columns.stages_ns[:, STAGES.index(limit.stage or Stage.UNATTRIBUTED)]
